"""What Heedful is built on: licences, known vulnerabilities, the bill of materials, the lowest versions."""

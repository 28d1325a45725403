"""The wire format, against the library of Protocol Buffers."""

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, UninterpretedOption
from hypothesis import given
from hypothesis import strategies as st

from heedful.interop.transformers.tokenizers.sentencepiece_file import read_fields


@given(st.text(), st.integers(-(2**31), 2**31 - 1), st.booleans())
def test_texts_numbers_and_flags_are_read(name: str, number: int, flag: bool) -> None:
    message = FieldDescriptorProto(name=name, number=number, proto3_optional=flag)
    fields = read_fields(message.SerializeToString())
    assert fields == {1: [name.encode()], 3: [number % 2**64], 17: [int(flag)]}  # two's complement of 64 bits


@given(st.lists(st.text()), st.lists(st.integers(0, 2**31 - 1)))
def test_repeated_fields_keep_their_order(names: list[str], numbers: list[int]) -> None:
    message = FileDescriptorProto(dependency=names, public_dependency=numbers)
    fields = read_fields(message.SerializeToString())
    assert fields.get(3, []) == [name.encode() for name in names]
    assert fields.get(10, []) == numbers


def test_values_of_a_fixed_size_are_bytes() -> None:
    message = UninterpretedOption(double_value=0.5, positive_int_value=3)
    assert read_fields(message.SerializeToString()) == {4: [3], 6: [bytes([0, 0, 0, 0, 0, 0, 0xE0, 0x3F])]}


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x0a\x05ab", "5 bytes expected at byte 2 of 4"),
        (b"\x0d\x00\x00", "4 bytes expected at byte 1 of 3"),
        (b"\x08", "unterminated number at byte 1"),
        (b"\x08" + b"\xff" * 11, "unterminated number at byte 1"),
        (b"\x0b", "wire type 3 at byte 1"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        read_fields(data)

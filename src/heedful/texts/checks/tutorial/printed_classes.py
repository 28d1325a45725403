"""The classes that the tutorial prints, written out from its listings, with the weights of Heedful's modules."""

import math
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from heedful.base.packed import Images, Layout, Packed
from heedful.config.model.images import ImageTransformerTable
from heedful.config.model.pooled import ClassifierModel
from heedful.config.reading.load import load_recipe
from heedful.metrics.classification import ClassificationResult
from heedful.models.from_recipe.encoder_only import build_classifier
from heedful.models.from_recipe.images import image_encoder
from heedful.models.networks import set_precision
from heedful.models.transformer.blocks import EncoderBlock
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.attention.three_inputs import ThreeInputAttention
from heedful.nn.layers.feedforward import FeedForward
from heedful.nn.layers.images.stems import Patches
from heedful.nn.layers.linear import LayerNorm, Linear
from heedful.nn.layers.pooling import LastPool
from heedful.nn.layers.positions import Sinusoidal
from heedful.nn.layers.residual import Residual
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.texts.checks.computed import Computed, drawn, given, numbers, randomize

_TOKENS, _WIDTH, _HEADS, _INNER = 3, 4, 2, 6
_LAYOUT = Layout.of([_TOKENS])


def _attention() -> SelfAttention:
    """Return attention as the class has it: no biases of queries, keys and values, one of the output."""
    return SelfAttention(_WIDTH, _HEADS, projection_bias=False)


def _multi_head(module: SelfAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return H and A of the class MultiHeadAttention, for one sentence."""
    w_q, w_k, w_v = module.project.weight.detach().chunk(3)
    d_k = _WIDTH // _HEADS

    def split_heads(rows: Tensor) -> Tensor:
        return rows.view(1, -1, _HEADS, d_k).transpose(1, 2)

    q, k, v = (split_heads((x @ w.T)[None]) for w in (w_q, w_k, w_v))
    q = q / np.sqrt(d_k)
    a = torch.softmax(torch.matmul(q, k.transpose(2, 3)), dim=-1)
    h_cat = torch.matmul(a, v).transpose(1, 2).contiguous().view(1, -1, _HEADS * d_k)[0]
    output = module.output
    return h_cat @ output.weight.detach().T + output.bias.detach(), a[0]


def _ffn(network: FeedForward, x: Tensor) -> Tensor:
    """Return what the class FFN computes."""
    inner = (x @ network.into.weight.detach().T + network.into.bias.detach()).clamp(min=0)
    return inner @ network.out.weight.detach().T + network.out.bias.detach()


def _norm(x: Tensor, norm: nn.Module) -> Tensor:
    assert isinstance(norm, LayerNorm)
    return nn.functional.layer_norm(x, (_WIDTH,), norm.weight.detach(), norm.bias.detach(), 1e-6)


def _block(kind: str) -> EncoderBlock:
    norms = [LayerNorm(_WIDTH, eps=1e-6) for _ in range(2)]

    def around(norm: LayerNorm) -> Residual:
        if kind == "rezero":
            return Residual(nn.Identity(), nn.Identity(), 0.0, learned=True)
        before, after = (nn.Identity(), norm) if kind == "post" else (norm, nn.Identity())
        return Residual(before, after, 0.0)

    parts = [randomize(part) for part in (_attention(), FeedForward(_WIDTH, _INNER), *norms)]
    residuals = cast(tuple[Residual, Residual], tuple(around(norm).double() for norm in norms))
    return EncoderBlock(cast(SelfAttention, parts[0]), parts[1], residuals).eval()


# --- MultiHeadAttention and the layers of the encoder -----------------------------------------------------------------


def printed_multi_head() -> Computed:
    """The class MultiHeadAttention: H and A, without biases of W_q, W_k and W_v, with one of W_h"""
    with drawn():
        module, x = cast(SelfAttention, randomize(_attention())), numbers(_TOKENS, _WIDTH)
        text = _multi_head(module, x)
        ours = module(x, _LAYOUT), module.weights(x, _LAYOUT)[0]
        return Computed(torch.cat([part.flatten() for part in text]), torch.cat([part.flatten() for part in ours]))


def three_input_widths() -> Computed:
    """d_input: queries, keys and values from inputs of the widths 3, 5 and 2"""
    with drawn():
        widths = 3, 5, 2
        module = ThreeInputAttention(_WIDTH, _HEADS, input_widths=widths, projection_bias=False)
        randomize(module)
        x_q, x_k, x_v = numbers(2, 3), numbers(_TOKENS, 5), numbers(_TOKENS, 2)
        maps = module.project_query, module.project_keys, module.project_values
        q, k, v = (x @ part.weight.detach().T for x, part in zip((x_q, x_k, x_v), maps, strict=True))
        d_k, heads = _WIDTH // _HEADS, []
        for head in range(_HEADS):
            rows = slice(head * d_k, (head + 1) * d_k)
            weights = (q[:, rows] @ k[:, rows].T / math.sqrt(d_k)).exp()
            heads.append(weights / weights.sum(1, keepdim=True) @ v[:, rows])
        text = torch.cat(heads, dim=1) @ module.output.weight.detach().T + module.output.bias.detach()
        return Computed(text, module(x_q, Layout.of([2]), x_k, x_v, _LAYOUT))


def printed_encoder_layer() -> Computed:
    """The class EncoderLayer: layernorm2(out1 + ffn(out1)), out1 = layernorm1(x + mha(x, x, x))"""
    with drawn():
        block, x = _block("post"), numbers(_TOKENS, _WIDTH)
        attention, network = cast(SelfAttention, block.attention), cast(FeedForward, block.network)
        out1 = _norm(x + _multi_head(attention, x)[0], block.around_attention.after)
        return Computed(_norm(out1 + _ffn(network, out1), block.around_network.after), block(x, _LAYOUT))


def printed_pre_norm_layer() -> Computed:
    """EncoderLayerPreLN: out1 = x + mha(x), where x is layernorm1(x) in the class; the sum adds the x that came in"""
    with drawn():
        block, x = _block("pre"), numbers(_TOKENS, _WIDTH)
        attention, network = cast(SelfAttention, block.attention), cast(FeedForward, block.network)
        normed = _norm(x, block.around_attention.before)

        def rest(added: Tensor) -> Tensor:
            out1 = added + _multi_head(attention, normed)[0]
            return out1 + _ffn(network, _norm(out1, block.around_network.before))

        return Computed(rest(normed), block(x, _LAYOUT), rest(x))


def printed_rezero_layer() -> Computed:
    """EncoderLayerReZero: one factor, here 0.3, for both sublayers in the class; one for each, here 0.3 and 0.7"""
    with drawn():
        block, x = _block("rezero"), numbers(_TOKENS, _WIDTH)
        attention, network = cast(SelfAttention, block.attention), cast(FeedForward, block.network)
        for residual, value in ((block.around_attention, 0.3), (block.around_network, 0.7)):
            assert residual.weight is not None
            nn.init.constant_(residual.weight, value)

        def layer(first: float, second: float) -> Tensor:
            out1 = x + _multi_head(attention, x)[0] * first
            return out1 + _ffn(network, out1) * second

        return Computed(layer(0.3, 0.3), block(x, _LAYOUT), layer(0.3, 0.7))


def saturated_softmax() -> Computed:
    """The largest of ten weights, width 64, over 200 queries: above 0.9 in most without a scale, in none with"""
    with drawn():
        q, k = numbers(200, 64), numbers(10, 64)
        wide = [(q @ k.T / scale).softmax(-1).max(-1).values for scale in (1.0, math.sqrt(64))]
        module = SelfAttention(64, 1, bias=False).double()
        with torch.no_grad():
            module.project.weight.copy_(torch.eye(64, dtype=torch.float64).repeat(3, 1))
        x = torch.cat([k, q[:1]])
        ours = module.weights(x, Layout.of([11]))[0, 0, -1, :10]
        ours = ours / ours.sum()
        shares = [float((part > 0.9).double().mean()) for part in wide]
        text = (q[0] @ k.T / math.sqrt(64)).softmax(-1)
        return Computed([1.0, 0.0, *text.tolist()], [float(shares[0] > 0.5), shares[1], *ours.tolist()])


# --- TweetClassifier --------------------------------------------------------------------------------------------------


def _classifier(recipe: str, **sizes: int) -> tuple[Any, Packed]:
    """Return the classifier of a recipe with other sizes of its encoder and 10 words, and a text of five words."""
    config = load_recipe(recipe).model
    assert isinstance(config, ClassifierModel)
    config = config.model_copy(update={"encoder": config.encoder.model_copy(update=sizes)})
    model = randomize(build_classifier(config, 10, 2))
    set_precision(model, torch.float64)
    return model, Packed.of([[3, 7, 4, 9, 5]])


def _lstm() -> RecurrentStack:
    return cast(RecurrentStack, randomize(RecurrentStack("lstm", _WIDTH, _WIDTH)))


def last_state_of_padding() -> Computed:
    """out[:, -1, :] of a tweet of two words padded to four in the class; the state after the last word"""
    with drawn():
        stack, words = _lstm(), numbers(2, _WIDTH)
        padded = torch.cat([words, torch.zeros(2, _WIDTH, dtype=torch.float64)])  # padding_idx=0: vectors of zeros
        text = stack(padded, Layout.of([4]))[0][-1]
        alone = stack(words, Layout.of([2]))[0][-1]
        layout = Layout.of([2, 4])
        packed = stack(torch.cat([words, numbers(4, _WIDTH)]), layout)[0]
        return Computed(text, LastPool()(packed, layout)[0], alone)


def random_first_states() -> Computed:
    """h and c drawn anew at every call in the class, so that one tweet has many scores; zeros"""
    with drawn():
        stack, words, layout = _lstm(), numbers(2, _WIDTH), Layout.of([2])
        draws = [given(nn.init.xavier_normal_(torch.empty(1, 1, _WIDTH, dtype=torch.float64))) for _ in range(2)]
        text = stack(words, layout, RecurrentState(draws[0], draws[1]))[0][-1]
        zeros = torch.zeros(1, 1, _WIDTH, dtype=torch.float64)
        return Computed(text, stack(words, layout)[0][-1], stack(words, layout, RecurrentState(zeros, zeros))[0][-1])


def words_of_an_embedding() -> Computed:
    """max_words, here 10, is the width of embeddings by the comment; it is hidden_dim, here 4: recipe tweets-lstm"""
    with drawn():
        model, _ = _classifier("tweets-lstm", width=_WIDTH)
        return Computed([10.0], [float(model.encoder.embedding.weight.shape[1])], [4.0])


def printed_tweet_classifier() -> Computed:
    """sigmoid(fc2(relu(fc1(out[:, -1, :])))), out of two layers of an LSTM, from states of 0: recipe tweets-lstm"""
    with drawn():
        model, tweet = _classifier("tweets-lstm", width=_WIDTH)
        out = math.sqrt(_WIDTH) * model.encoder.embedding.weight.detach()[tweet.values]  # the rows of nn.Embedding
        for layer in model.encoder.stack.layers:
            w_x, w_h, b_x, b_h = (weight.detach() for weight in layer.all_weights[0])
            h, c, states = *(torch.zeros(_WIDTH, dtype=torch.float64) for _ in "hc"), []
            for x in out:
                i, f, g, o = (w_x @ x + b_x + w_h @ h + b_h).chunk(4)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
                states.append(h)
            out = torch.stack(states)
        fc1, fc2 = model.hidden.linear, model.output
        hidden = (fc1.weight @ out[-1] + fc1.bias).clamp(min=0)
        assert len(hidden) == 257
        return Computed(torch.sigmoid(fc2.weight @ hidden + fc2.bias), model(tweet).softmax(-1)[:, 1])


# --- TransformerClassifier --------------------------------------------------------------------------------------------


def printed_classifier() -> Computed:
    """dense(max over positions of EncoderLayer(Embeddings(x))): recipe tutorial-transformer-classifier"""
    with drawn():
        model, review = _classifier("tutorial-transformer-classifier", width=_WIDTH, inner=_INNER)
        embedding, (block,) = model.encoder.embedding, model.encoder.blocks
        words = embedding.weight.detach()[review.values]
        norm = embedding.norm
        x = words + Sinusoidal(_WIDTH).table[: len(words)].double()
        x = nn.functional.layer_norm(x, (_WIDTH,), norm.weight, norm.bias, 1e-12)
        out1 = _norm(x + _multi_head(block.attention, x)[0], block.around_attention.after)
        out2 = _norm(out1 + _ffn(block.network, out1), block.around_network.after)
        return Computed(model.output.weight @ out2.max(0).values + model.output.bias, model(review)[0])


def mean_of_batches() -> Computed:
    """acc / nb_batches of 195 batches of 128 reviews, all right, and one of 40, all wrong; the share of reviews"""
    sizes, right = [128] * 195 + [40], [1.0] * 195 + [0.0]
    true = np.zeros((sum(sizes), 2), bool)
    true[:, 0] = True
    said = true.copy()
    said[-40:] = ~said[-40:]
    ours = ClassificationResult(("neg", "pos"), true, said).accuracy
    shares = sum(size * share for size, share in zip(sizes, right, strict=True)) / sum(sizes)
    return Computed([sum(right) / len(sizes)], [ours], [shares])


# --- images -----------------------------------------------------------------------------------------------------------

_PATCH, _CHANNELS = 2, 3


def _img_to_patch(x: Tensor) -> Tensor:
    """Return the patches of images [B, C, H, W], as the function of the text does."""
    b, c, h, w = x.shape
    x = x.reshape(b, c, h // _PATCH, _PATCH, w // _PATCH, _PATCH)
    return x.permute(0, 2, 4, 1, 3, 5).flatten(1, 2).flatten(2, 4)


def _channels_first(weight: Tensor) -> Tensor:
    """Return the columns of a matrix of Heedful, which reads pixels as y, x, channel, in the text's order."""
    return weight.view(len(weight), _PATCH, _PATCH, _CHANNELS).permute(0, 3, 1, 2).flatten(1)


def image_patches() -> Computed:
    """img_to_patch, and the linear map of each patch, which the text calls input_layer"""
    with drawn():
        stem = cast(Patches, randomize(Patches(_PATCH, _CHANNELS, 5)))
        images = numbers(2, _CHANNELS, 4, 6)
        project = stem.project
        text = _img_to_patch(images) @ _channels_first(project.weight.detach()).T + project.bias.detach()
        return Computed(text, stem(images.permute(0, 2, 3, 1)))


def _image_encoder(**options: Any) -> Any:
    table = ImageTransformerTable.model_validate(
        {"family": "vit", "width": _WIDTH, "heads": _HEADS, "layers": 1, "inner": _INNER, "dropout": 0.0,
         "patch": _PATCH, "channels": _CHANNELS, "grid": 2, "stem": "patches", **options}
    )  # fmt: skip
    encoder = cast(Any, randomize(image_encoder(table)))
    encoder.embedding.precision = torch.float64
    return encoder


def class_token_and_positions() -> Computed:
    """[c; patches] plus a learned table of positions: one for c, and one for each patch"""
    with drawn():
        embedding = _image_encoder(class_position=True).embedding
        pixels = given(torch.randint(0, 256, (4, 4, _CHANNELS)))
        images = Images.of([pixels.to(torch.uint8)], _PATCH, class_token=True)
        scaled = (pixels.double() / 127.5 - 1).permute(2, 0, 1)[None]
        project = embedding.stem.project
        patches = _img_to_patch(scaled)[0] @ _channels_first(project.weight.detach()).T + project.bias.detach()
        x = torch.cat([embedding.class_token, patches])
        text = x + torch.cat([embedding.class_position, embedding.positions.weight])
        return Computed(text, embedding(images))


def head_of_the_class_token() -> Computed:
    """mlp_head(x[0]): a linear map of the layer norm of the class token's state"""
    with drawn():
        encoder = _image_encoder()
        head = cast(Linear, randomize(Linear(_WIDTH, 3)))
        pixels = given(torch.randint(0, 256, (4, 4, _CHANNELS)))
        images = Images.of([pixels.to(torch.uint8)], _PATCH, class_token=True)
        x = encoder.embedding(images)
        for block in encoder.blocks:
            x = block(x, images.layout)
        norm = encoder.final
        cls = nn.functional.layer_norm(x[0], (_WIDTH,), norm.weight, norm.bias, norm.eps)
        return Computed(head.weight @ cls + head.bias, head(encoder(images).values[:1])[0])


def positions_in_two_dimensions() -> Computed:
    """P(0,0) - P(0,1) = P(1,0) - P(1,1) where rows and columns have positions, as in the prose; one vector per patch"""
    with drawn():
        positions = _image_encoder().embedding.positions
        p_00, p_01, p_10, p_11 = positions(2, 2)
        table = positions.weight.detach()
        text = torch.zeros(_WIDTH)
        return Computed(text, (p_00 - p_01) - (p_10 - p_11), table[0] - table[1] - table[2] + table[3])

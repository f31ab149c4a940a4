"""Are the answers in PyTorch right? They are compared with PyTorch, torchvision and numbers worked out by hand."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attention_tests.repair import BrokenBlock
from conftest import FIRST_SEED_SOON
from test_numpy_answers import LEADING, draw_mask
from torch import nn
from torchvision.models import VisionTransformer

from solutions import encoder, multihead, vit


def heads(seed: int, *shape: int) -> torch.Tensor:
    """Draw a tensor in float64."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def test_einsum_products_by_hand() -> None:
    """Are the products those that were worked out on paper?"""
    a, b = torch.tensor([[1, 2], [4, 3], [7, 4]]), torch.tensor([[2, 0], [1, 5]])
    assert multihead.matmul(a, b).tolist() == [[4, 10], [11, 15], [18, 20]]
    assert multihead.matmul_transposed(a, b).tolist() == [[2, 11], [8, 19], [14, 27]]


def test_einsums_equal_torch() -> None:
    """Are trace, dot products and bilinear form those of torch.trace, torch.bmm and F.bilinear?"""
    a, q, k, w = heads(0, 3, 4, 4), heads(1, 3, 4, 5), heads(2, 3, 2, 5), heads(3, 5, 6)
    y = heads(4, 3, 2, 6)
    torch.testing.assert_close(multihead.batched_trace(a), torch.stack([torch.trace(matrix) for matrix in a]))
    torch.testing.assert_close(multihead.pairwise_dot(q, k), torch.bmm(q, k.mT))
    pairs = q[:, :, None].expand(3, 4, 2, 5).contiguous(), y[:, None].expand(3, 4, 2, 6).contiguous()
    torch.testing.assert_close(multihead.bilinear(q, w, y), F.bilinear(*pairs, w[None])[..., 0])


def test_heads_by_hand() -> None:
    """Do the numbers of two tokens of width 6 go to the places in a drawing, and back?"""
    x = torch.arange(12).reshape(1, 2, 6)
    split = multihead.split_heads(x, 3)
    assert split.tolist() == [[[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]]
    assert multihead.merge_heads(split).tolist() == x.tolist()


@pytest.mark.parametrize("shape", [None, (2, 5), (2, 5, 5), (2, 3, 5, 5)])
def test_attend_equals_torch(shape: tuple[int, ...] | None) -> None:
    """Is the output that of F.scaled_dot_product_attention, for each shape of mask?"""
    q, k, v = (heads(seed, 2, 3, 5, 4) for seed in range(3))
    mask = None if shape is None else torch.from_numpy(draw_mask(4, *shape))
    full = None if mask is None else mask.reshape(2, *[1] * (4 - mask.ndim), *mask.shape[1:]).expand(2, 3, 5, 5)
    output, weights = multihead.attend(q, k, v, mask)
    torch.testing.assert_close(output, F.scaled_dot_product_attention(q, k, v, attn_mask=full))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 5, dtype=torch.float64))
    assert full is None or not weights[~full].any()


def test_attend_refuses_a_query_without_keys() -> None:
    """Does the error say how many rows of the mask are empty?"""
    mask = torch.from_numpy(draw_mask(5, 2, 5, 5))
    mask[0, [1, 3]] = False
    with pytest.raises(ValueError, match=r"^the mask hides all keys from a query: 2 of its rows are all False$"):
        multihead.attend(*(heads(seed, 2, 3, 5, 4) for seed in range(3)), mask)


def test_attend_works_in_half_precision() -> None:
    """Is nothing NaN in half precision where exp alone would overflow, with a mask too?"""
    q, k, v = (10 * heads(seed, 2, 3, 5, 4).half() for seed in range(3))
    for mask in (None, torch.from_numpy(draw_mask(4, 2, 5))):
        output, _ = multihead.attend(q, k, v, mask)
        assert output.dtype == torch.float16
        assert output.isfinite().all()


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6])
def test_layer_equals_torch(num_heads: int) -> None:
    """Do the layer and the result of `to_torch` have equal outputs, gradients and weights for each head?"""
    torch.manual_seed(0)
    layer = multihead.MultiHeadAttention(12, num_heads)
    theirs = multihead.to_torch(layer)
    mask = torch.from_numpy(draw_mask(6, 2, 5))
    x = torch.randn(2, 5, 12, requires_grad=True)
    output, weights = layer(x, mask, return_weights=True)
    right, maps = theirs(x, x, x, key_padding_mask=~mask, average_attn_weights=False)
    torch.testing.assert_close(output, right)
    torch.testing.assert_close(weights, maps)
    mine, other = (torch.autograd.grad(each.square().sum(), x)[0] for each in (output, right))
    torch.testing.assert_close(mine, other)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 4 * 12 * 13


def test_layer_drops_weights_in_training_alone() -> None:
    """Does dropout set a fifth of the weights to 0 and rescale the others, only in training?"""
    torch.manual_seed(0)
    layer = multihead.MultiHeadAttention(6, 2, dropout=0.2)
    x = torch.randn(4, 7, 6)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    torch.testing.assert_close(layer(x), multihead.to_torch(layer)(x, x, x)[0])
    mean = torch.stack([layer.train()(x) for _ in range(400)]).mean(dim=0)
    torch.testing.assert_close(mean, layer.eval()(x), rtol=0, atol=0.05)  # 400 draws with a spread of about 0.1


def test_layer_refuses_heads_that_do_not_divide_the_width() -> None:
    """Does the error hold both numbers?"""
    with pytest.raises(ValueError, match=r"\b10\b.*\b3\b"):
        multihead.MultiHeadAttention(10, 3)


def copied_block(width: int, num_heads: int, hidden_width: int) -> tuple[nn.Module, nn.Module]:
    """Return our block and PyTorch's pre-norm layer with the same weights, all of them away from their initial values."""
    own = encoder.EncoderBlock(width, num_heads, hidden_width)
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    theirs = nn.TransformerEncoderLayer(width, num_heads, hidden_width, 0.0, "gelu", batch_first=True, norm_first=True)
    pairs = {
        theirs.norm1.weight: own.norm_attention.scale,
        theirs.norm1.bias: own.norm_attention.shift,
        theirs.norm2.weight: own.norm_feed_forward.scale,
        theirs.norm2.bias: own.norm_feed_forward.shift,
        theirs.self_attn.in_proj_weight: own.attention.qkv.weight,
        theirs.self_attn.in_proj_bias: own.attention.qkv.bias,
        theirs.self_attn.out_proj.weight: own.attention.out.weight,
        theirs.self_attn.out_proj.bias: own.attention.out.bias,
        theirs.linear1.weight: own.feed_forward.expand.weight,
        theirs.linear1.bias: own.feed_forward.expand.bias,
        theirs.linear2.weight: own.feed_forward.contract.weight,
        theirs.linear2.bias: own.feed_forward.contract.bias,
    }
    with torch.no_grad():
        for target, source in pairs.items():
            target.copy_(source)
    return own, theirs


@pytest.fixture
def in_float64():
    """Make modules and tensors in float64, from one seed."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("leading", LEADING)
def test_layer_norm_equals_torch(in_float64: None, leading: tuple[int, ...]) -> None:
    """Is LayerNorm equal to nn.LayerNorm, with any batch axes and a large eps?"""
    own, theirs = encoder.LayerNorm(6, eps=0.3), nn.LayerNorm(6, eps=0.3)
    for parameter, other in ((own.scale, theirs.weight), (own.shift, theirs.bias)):
        parameter.data = other.data = torch.randn(6)
    x = 3 * torch.randn(*leading, 5, 6) + 1
    torch.testing.assert_close(own(x), theirs(x), rtol=1e-12, atol=1e-12)


def test_layer_norm_by_hand(in_float64: None) -> None:
    """Does LayerNorm map 1, 3, 5, 7 (mean 4, variance 5) with eps 4 to (-3, -1, 1, 3)/3?"""
    y = encoder.LayerNorm(4, eps=4.0)(torch.tensor([1.0, 3.0, 5.0, 7.0]))
    torch.testing.assert_close(y, torch.tensor([-1.0, -1 / 3, 1 / 3, 1.0]))


def test_feed_forward_equals_torch(in_float64: None) -> None:
    """Is FeedForward equal to two linear layers with the exact GELU between them?"""
    own, x = encoder.FeedForward(5, 7), torch.randn(2, 3, 5)
    theirs = nn.Sequential(own.expand, nn.GELU(), own.contract)
    torch.testing.assert_close(own(x), theirs(x), rtol=1e-12, atol=1e-12)


def test_given_attention_equals_torch(in_float64: None) -> None:
    """Is the given attention equal to nn.MultiheadAttention with copied weights, for all three shapes of masks?"""
    own, theirs = encoder.MultiHeadAttention(6, 3), nn.MultiheadAttention(6, 3, batch_first=True)
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = own.qkv.weight.data, own.qkv.bias.data
    theirs.out_proj.weight.data, theirs.out_proj.bias.data = own.out.weight.data, own.out.bias.data
    x = torch.randn(2, 5, 6)
    for shape in ((5,), (5, 5), (3, 5, 5)):
        mask = torch.from_numpy(draw_mask(len(shape), 2, *shape))
        pairs = {1: mask[:, None, None], 2: mask[:, None], 3: mask}[len(shape)].expand(2, 3, 5, 5).flatten(0, 1)
        expected = theirs(x, x, x, attn_mask=~pairs, need_weights=False)[0]
        torch.testing.assert_close(own(x, mask), expected, rtol=1e-12, atol=1e-12)


def test_encoder_block_equals_torch(in_float64: None) -> None:
    """Is the block equal to PyTorch's pre-norm layer with copied weights, also its gradients, with a mask and for one token?"""
    own, theirs = copied_block(6, 3, 7)
    for tokens in (5, 1):
        x = torch.randn(2, tokens, 6, requires_grad=True)
        grad_output = torch.randn(2, tokens, 6)
        (expected,) = torch.autograd.grad(theirs(x), x, grad_output)
        torch.testing.assert_close(own(x), theirs(x), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(torch.autograd.grad(own(x), x, grad_output)[0], expected, rtol=1e-10, atol=1e-10)
    x, mask = torch.randn(2, 5, 6), torch.from_numpy(draw_mask(1, 2, 5))
    torch.testing.assert_close(own(x, mask), theirs(x, src_key_padding_mask=~mask), rtol=1e-12, atol=1e-12)


def test_encoder_gradients_equal_finite_differences(in_float64: None) -> None:
    """Do finite differences agree with autograd through a stack of two blocks?"""
    stack, x = encoder.Encoder(2, 4, 2, 3), torch.randn(2, 3, 4, requires_grad=True)
    assert torch.autograd.gradcheck(stack, (x,))


def test_encoder_equals_torch(in_float64: None) -> None:
    """Is the stack equal to PyTorch's, with separate layers and a norm after the last?"""
    pairs = [copied_block(6, 2, 5) for _ in range(3)]
    own = encoder.Encoder(3, 6, 2, 5)
    theirs = nn.TransformerEncoder(pairs[0][1], 3, nn.LayerNorm(6), enable_nested_tensor=False)
    own.blocks, theirs.layers = nn.ModuleList(pair[0] for pair in pairs), nn.ModuleList(pair[1] for pair in pairs)
    x, mask = torch.randn(4, 5, 6), torch.from_numpy(draw_mask(2, 4, 5))
    torch.testing.assert_close(own(x, mask), theirs(x, src_key_padding_mask=~mask), rtol=1e-12, atol=1e-12)


def test_encoder_parameters_are_counted() -> None:
    """Does the encoder have as many parameters as the formula says: 4 D² + 2 D M + 9 D + M for each block, and 2 D?"""
    depth, width, hidden = 3, 8, 12
    count = sum(parameter.numel() for parameter in encoder.Encoder(depth, width, 2, hidden).parameters())
    assert count == depth * (4 * width**2 + 2 * width * hidden + 9 * width + hidden) + 2 * width


def test_encoder_dropout_is_gone_in_evaluation() -> None:
    """Does evaluation equal the same weights without dropout, and differ from training?"""
    torch.manual_seed(1)
    dropping, plain = encoder.Encoder(2, 6, 3, 7, dropout=0.3), encoder.Encoder(2, 6, 3, 7)
    plain.load_state_dict(dropping.state_dict())
    x = torch.randn(2, 5, 6)
    assert not torch.allclose(dropping(x), plain(x))
    torch.testing.assert_close(dropping.eval()(x), plain(x))


def trained(blocks: list[nn.Module], seed: int) -> tuple[float, float]:
    """Train a stack to distinguish four directions of noisy tokens; return the first loss, and the accuracy on new sequences."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(4, 48, generator=generator)
    model, head = nn.Sequential(*blocks), nn.Linear(48, 4)
    parameters = [p for p in (*model.parameters(), *head.parameters()) if p.requires_grad]
    optimizer, losses = torch.optim.Adam(parameters, lr=3e-3), []

    def draw(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(4, (count,), generator=generator)
        return torch.randn(count, 5, 48, generator=generator) + directions[labels][:, None], labels

    for _ in range(60):
        x, labels = draw(32)
        loss = F.cross_entropy(head(model(x).mean(dim=1)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    x, labels = draw(400)
    with torch.no_grad():
        return losses[0], float((head(model(x).mean(dim=1)).argmax(dim=-1) == labels).float().mean())


@pytest.mark.parametrize("seed", FIRST_SEED_SOON)
def test_broken_blocks_do_not_learn_and_repaired_ones_do(seed: int) -> None:
    """Does the broken block stay at chance, as the notebook says, and does the repaired one learn?

    The accuracy is that on new sequences: a broken stack may end with any training loss, NaN and 0 included.
    """
    torch.manual_seed(seed)
    first, accuracy = trained([BrokenBlock(48, 4, 80) for _ in range(4)], seed)
    assert first > 1e3
    assert accuracy < 0.5  # chance is 0.25
    first, accuracy = trained([encoder.repair(BrokenBlock(48, 4, 80)) for _ in range(4)], seed)
    assert 0.7 < first < 4
    assert accuracy > 0.9


def test_repair_changes_the_block_in_place(in_float64: None) -> None:
    """Does the same object come back, with parts of the same sizes, and without information between images?"""
    block = BrokenBlock(12, 3, 7)
    sizes = {name: parameter.shape for name, parameter in block.named_parameters()}
    x = torch.randn(4, 5, 12)
    other = torch.cat([x[:1] + 1, x[1:]])
    assert (block(x) - block(other))[1:].abs().max() > 0.1
    repaired = encoder.repair(block)
    assert repaired is block
    assert sizes.items() <= {name: parameter.shape for name, parameter in block.named_parameters()}.items()
    torch.testing.assert_close(block(other)[1:], block(x)[1:], rtol=1e-12, atol=1e-12)


SIZES = dict(image_size=12, patch_size=4, width=24, num_heads=3, hidden_width=20, depth=2, num_classes=7, channels=2)


def drawn_vit(seed: int, **sizes: int | float) -> vit.ViT:
    """Draw a model without parameters of 0 or 1, so that each one matters."""
    torch.manual_seed(seed)
    model = vit.ViT(**sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def torchvision_twin(model: vit.ViT, **sizes: int) -> VisionTransformer:
    """Return torchvision's model with the parameters of ours."""
    twin = VisionTransformer(
        image_size=sizes["image_size"],
        patch_size=sizes["patch_size"],
        num_layers=sizes["depth"],
        num_heads=sizes["num_heads"],
        hidden_dim=sizes["width"],
        mlp_dim=sizes["hidden_width"],
        num_classes=sizes["num_classes"],
        norm_layer=partial(nn.LayerNorm, eps=1e-5),
    )
    twin.conv_proj = nn.Conv2d(sizes["channels"], sizes["width"], sizes["patch_size"], sizes["patch_size"])
    with torch.no_grad():
        twin.class_token.copy_(model.class_token)
        twin.encoder.pos_embedding.copy_(model.position_embedding)
    pairs = [
        (twin.conv_proj, model.patch_embedding.projection),
        (twin.encoder.ln, model.encoder.norm),
        (twin.heads.head, model.head),
    ]
    for theirs, ours in zip(twin.encoder.layers, model.encoder.blocks):
        pairs += [(theirs.ln_1, ours.norm1), (theirs.self_attention, ours.self_attn), (theirs.ln_2, ours.norm2)]
        pairs += [(theirs.mlp[0], ours.linear1), (theirs.mlp[3], ours.linear2)]
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())
    return twin


REFERENCE = dict(
    image_size=28, patch_size=7, width=64, num_heads=8, hidden_width=128, depth=6, num_classes=10, channels=1
)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("sizes", [SIZES, REFERENCE])
def test_vit_equals_torchvision(sizes: dict, training: bool) -> None:
    """Are scores and gradients torchvision's for every parameter, in training and evaluation mode?"""
    model = drawn_vit(0, **sizes)
    twin = torchvision_twin(model, **sizes)
    assert sum(map(torch.numel, model.parameters())) == sum(map(torch.numel, twin.parameters()))
    images = torch.randn(5, sizes["channels"], sizes["image_size"], sizes["image_size"])
    scores = []
    for each in (model, twin):
        each.train(training)
        scores.append(each(images))
        scores[-1].square().sum().backward()
    # float32, several blocks deep, sums in another order
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-5)
    for ours, theirs in (
        (model.class_token, twin.class_token),
        (model.position_embedding, twin.encoder.pos_embedding),
        (model.patch_embedding.projection.weight, twin.conv_proj.weight),
    ):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-3)
    with torch.no_grad():  # PyTorch's layers have another code path in evaluation
        torch.testing.assert_close(model(images), twin(images), rtol=1e-4, atol=1e-5)


def test_vit_defaults_are_the_reference() -> None:
    """Is ViT() the model of the book?"""
    named = {name: value.shape for name, value in vit.ViT().named_parameters()}
    assert named == {name: value.shape for name, value in vit.ViT(**REFERENCE).named_parameters()}


def test_patchify_by_loops() -> None:
    """Are patches in reading order, with their pixels by channel, row and column?"""
    images = torch.arange(2 * 3 * 4 * 6.0).view(2, 3, 4, 6)
    expected = [
        [
            [float(image[c, 2 * row + i, 2 * column + j]) for c in range(3) for i in range(2) for j in range(2)]
            for row in range(2)
            for column in range(3)
        ]
        for image in images
    ]
    assert vit.patchify(images, 2).tolist() == expected


@pytest.mark.parametrize("size", [(28, 27), (27, 28)])
def test_patchify_refuses_what_does_not_tile(size: tuple[int, int]) -> None:
    """Are images that patches do not tile refused, with both numbers?"""
    with pytest.raises(ValueError, match=f"7×7 do not tile images of {size[0]}×{size[1]}"):
        vit.patchify(torch.zeros(1, 1, *size), 7)


def test_patch_embedding_equals_patchify_and_linear() -> None:
    """Is the convolution equal to one linear layer on the patches' pixels, also for two channels?"""
    torch.manual_seed(1)
    embedding = vit.PatchEmbedding(image_size=12, patch_size=4, channels=2, width=5)
    images = torch.randn(3, 2, 12, 12)
    projection = embedding.projection
    expected = F.linear(vit.patchify(images, 4), projection.weight.flatten(1), projection.bias)
    torch.testing.assert_close(embedding(images), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"expected images of 12×12, got \(3, 2, 12, 8\)"):
        embedding(images[..., :8])


def drawn_batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Draw three batches; the last is smaller."""
    torch.manual_seed(2)
    return [(torch.randn(size, 2, 12, 12), torch.randint(0, 7, (size,))) for size in (5, 5, 2)]


def test_train_epoch_equals_a_plain_loop() -> None:
    """Does an epoch move the parameters like a plain loop, and are its means over images?"""
    ours, theirs = drawn_vit(3, **SIZES), drawn_vit(3, **SIZES)
    batches, losses, right = drawn_batches(), [], []
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    ours.eval()
    result = vit.train_epoch(ours, batches, torch.optim.SGD(ours.parameters(), lr=0.1))
    for images, labels in batches:
        scores = theirs(images)
        losses += [-scores[i].log_softmax(0)[label] for i, label in enumerate(labels)]
        right += [int(scores[i].argmax()) == int(label) for i, label in enumerate(labels)]
        gradients = torch.autograd.grad(torch.stack(losses[-len(labels) :]).mean(), list(theirs.parameters()))
        for parameter, gradient in zip(theirs.parameters(), gradients):
            parameter.grad = gradient
        optimizer.step()
    for mine, other in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result, (float(torch.stack(losses).mean().detach()), np.mean(right)), rtol=1e-4)
    assert ours.training


@pytest.mark.parametrize("training", [True, False])
def test_evaluate_changes_nothing(training: bool) -> None:
    """Are the means over images, without dropout, and do parameters, gradients and mode stay unchanged?"""
    model, batches = drawn_vit(4, **SIZES, dropout=0.5).train(training), drawn_batches()
    model(batches[0][0]).sum().backward()
    before = [(parameter.detach().clone(), parameter.grad.clone()) for parameter in model.parameters()]
    result = vit.evaluate(model, batches)
    assert all(module.training == training for module in model.modules())
    for parameter, (value, gradient) in zip(model.parameters(), before):
        assert torch.equal(parameter, value) and torch.equal(parameter.grad, gradient)
    images, labels = (torch.cat(parts) for parts in zip(*batches))
    scores = model.eval()(images)
    losses = [-float(scores[i].log_softmax(0)[label].detach()) for i, label in enumerate(labels)]
    np.testing.assert_allclose(
        result, (np.mean(losses), float((scores.argmax(1) == labels).double().mean())), rtol=1e-5
    )


def test_attention_maps_and_rollout() -> None:
    """Are the maps those of each block's attention, and the rollout their product by plain loops?"""
    model = drawn_vit(5, **SIZES)
    images = torch.randn(2, 2, 12, 12)
    maps = vit.attention_maps(model, images)  # (depth, B, H, 1 + N, 1 + N)
    assert maps.shape == (2, 2, 3, 10, 10)
    np.testing.assert_allclose(maps.sum(-1), 1, rtol=1e-5)
    x = torch.cat([model.class_token.expand(2, -1, -1), model.patch_embedding(images)], 1) + model.position_embedding
    for block, seen in zip(model.encoder.blocks, maps):
        qkv = F.linear(block.norm1(x), block.self_attn.in_proj_weight, block.self_attn.in_proj_bias)
        q, k, _ = qkv.view(2, 10, 3, 3, 8).unbind(2)
        expected = (torch.einsum("bihd,bjhd->bhij", q, k) / 8**0.5).softmax(-1)
        torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-5)
        x = block(x)
    expected = np.zeros((2, 10))
    for image in range(2):
        rollout = np.eye(10)
        for layer in maps[:, image].double().numpy():
            mixing = np.array([[layer[:, i, j].mean() / 2 + (i == j) / 2 for j in range(10)] for i in range(10)])
            rollout = np.array([[mixing[i] @ rollout[:, j] for j in range(10)] for i in range(10)])
        expected[image] = rollout[0]
    np.testing.assert_allclose(vit.attention_rollout(maps), expected, rtol=1e-4)

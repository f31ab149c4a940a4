"""A decoder in PyTorch: the blocks of the encoder with a causal mask, and the loop that writes with it."""

import torch
from torch import Tensor, nn

from solutions.vit import Encoder


class Decoder(nn.Module):
    """Predict the next character after every character of a text, from this one and the earlier ones.

    Args:
        num_characters: V, the number of different characters.
        context: N, the largest number of characters that the model reads.
        width: D, the width of a token.
        dropout: The share of the numbers that is set to 0 in training, as in `ViT`.
        sizes_of_encoder: depth, num_heads and hidden_width, as in `Encoder`.

    Source: Radford et al. 2018, section 3.1.
    """

    def __init__(
        self, *, num_characters: int, context: int, width: int, dropout: float = 0.0, **sizes_of_encoder: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_characters, width)
        self.position_embedding = nn.Parameter(0.02 * torch.randn(1, context, width))  # (1, N, D)
        self.dropout = nn.Dropout(dropout)
        self.encoder = Encoder(width=width, dropout=dropout, **sizes_of_encoder)
        self.head = nn.Linear(width, num_characters)

    def forward(self, characters: Tensor) -> Tensor:
        """Compute the logits of the next character after each place.

        Args:
            characters: (B, n), numbers from 0 to V - 1; n is at most N.

        Returns:
            The logits, (B, n, V). Those of place i do not depend on later characters.
        """
        count = characters.shape[1]
        x = self.dropout(self.embedding(characters) + self.position_embedding[:, :count])  # (B, n, D)
        later = torch.ones(count, count, dtype=torch.bool, device=x.device).triu(1)  # (n, n), True = may not look
        for block in self.encoder.blocks:
            x = block(x, src_mask=later, is_causal=True)  # (B, n, D)
        return self.head(self.encoder.norm(x))  # (B, n, V)


@torch.no_grad()
def write(
    model: Decoder,
    characters: Tensor,
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Continue texts, one character at a time.

    Args:
        model: A decoder in evaluation mode.
        characters: (B, n), the beginnings; n is at least 1.
        count: The number of characters to add.
        temperature: Divides the logits; near 0 the likeliest character is taken.
        top_k: Draw only from this many likeliest characters; None means all.
        generator: Draws the characters.

    Returns:
        The beginnings and their continuations, (B, n + count).
    """
    context = model.position_embedding.shape[1]
    for _ in range(count):
        logits = model(characters[:, -context:])[:, -1]  # (B, V)
        if top_k is not None:
            least = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]  # (B, 1)
            logits = logits.masked_fill(logits < least, -torch.inf)  # (B, V)
        weights = (logits / temperature).softmax(dim=-1)  # (B, V)
        drawn = torch.multinomial(weights, 1, generator=generator)  # (B, 1)
        characters = torch.cat([characters, drawn], dim=1)
    return characters

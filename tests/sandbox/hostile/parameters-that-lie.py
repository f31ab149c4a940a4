"""Makes a module that lists wrong parameters, and whose mode changes each time that it is read."""
# %% instead of LayerNorm
class LayerNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
    def forward(self, x):
        return self.scale * F.layer_norm(x, x.shape[-1:]) + self.shift
    training = property(lambda self: id(object()) % 3 == 0, lambda self, value: None)
    def named_parameters(self, *args, **kwargs):
        return [("scale", torch.zeros(2)), ("scale", torch.ones(3)), ("", self.shift), ("shift", None)]

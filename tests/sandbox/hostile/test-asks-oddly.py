"""Calls attention functions with wrong and huge values, with gradients and from a thread, and sends malformed questions itself."""
# %% instead of test_attention
RIGHT
right = test_attention
def test_attention(candidate):
    import inside, threading, wire
    for odd in ({}, {"arguments": 5}, {"arguments": ["eval"] * 3}, {"gradients": "attend"}, {"keywords": [1]}):
        inside.CHANNEL[0].sendall(wire.frame(wire.dumps({"question": True, "arguments": [], "keywords": {}} | odd)))
        assert "error" in wire.loads(inside._receive())
    one = torch.ones(1, 1, 1, 1)
    for odd in ((), (None,) * 4, (one, one, "v"), (one.expand(999, 99, 9, 9),) * 3, (lambda: 1,) * 3, ({},) * 3, (np.ones(3),) * 3):
        try:
            candidate(*odd)
        except Exception:
            pass
    try:
        candidate(one.clone().requires_grad_(), one, one)[0].sum().backward()
    except Exception:
        pass
    asking = threading.Thread(target=lambda: candidate(one, one, one))
    asking.start()
    asking.join()
    right(candidate)
    return {(2, 3): "fine"}, {5}, threading

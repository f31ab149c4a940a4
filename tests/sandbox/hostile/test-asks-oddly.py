"""Calls attention functions with wrong and huge values, with gradients, from a thread, and again in later calls."""
# %% instead of test_attention
RIGHT
right, kept = test_attention, []
def test_attention(candidate):
    import threading
    kept.append(candidate)
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
    kept[0](one, one, one)
    right(candidate)
    return {(2, 3): "fine"}, {5}, threading

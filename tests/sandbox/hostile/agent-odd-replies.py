"""Replaces the agent by one that sends long errors, impossible shapes, wrong numbers of bytes and broken JSON."""
# %%
import inside, wire
huge, deep, long = "9" * 10**6, '{"list": [' * 5000 + "1" + "]}" * 5000, "a" * 2_000_000
values = ["0.5", huge, deep, "1e999", '{"unknown": 1}', '{"dict": [[[], 1]]}', '"\\ud800"', '{"tensor": ["|b1", [8]]}',
    '{"array": ["<f8", [1000000, 1000000, 1000000]]}', '{"array": ["<f8", [0, 33554432, 33554432, 33554432]]}']
errors = ['5', '["SystemExit"]', '{"list": ["GraderFault", "SystemExit"]}', '{"list": ["UnicodeDecodeError"]}',
    '{"list": ["NameError"]}], ["text", "%s"], ["line", "%s"' % (long, long), '{"list": ["KernelLost", {"list": []}]}']
texts = ['{"dict": [["id", "ID"], ["error", %s]]}' % error for error in errors]
texts += ['{"dict": [["id", "ID"], ["value", %s], ["arguments", 5]]}' % value for value in values]
texts += ['{"dict": [["question", true], ["arguments", {"list": [1]}], ["keywords", {"dict": []}]]}']
texts += ["", "[]", "{", "\x00", '{"dict": [["id", "ID"]]}', '{"dict": [["id", {"array": ["<f8", [2]]}]]}']
honest = inside._reply_to
def reply_to(do, request):
    while do != "cell":
        with open("/tmp/turns", "a") as turns:  # tests do not share their memory
            turns.write("x")
            message = texts[turns.tell() % len(texts)].replace("ID", request["id"]).encode() + b"\0" + b"\7" * 16
        try:
            if wire.loads(message)["id"] == request["id"]:
                return message
        except (ValueError, TypeError, LookupError):
            pass
        inside.CHANNEL[0].sendall(wire.frame(message))  # nobody would wait for more behind it
    return honest(do, request)
inside._reply_to = reply_to

"""Reports malformed and huge outputs of its cells, and outputs with half surrogate pairs."""
# %%
import inside
kinds = ("stream", "error", "display_data", "status")
content = '[["name", "stdout"], ["text", "half \\ud800 and \\u0000 \\u202e end"], ["ename", "\\udfff"], ["evalue", 1e999], ["traceback", {"list": ["\\ud800", %s0]}], ["data", {"dict": [["text/plain", "\\ud800"], ["image/png", "%s"]]}]]' % ("0," * 10**4, "\\n" * 10**5)
pieces = ",".join('{"list": ["%s", {"dict": %s}]}' % (kind, content) for kind in kinds)
arrays = '{"list": ["stream", {"dict": [["name", {"array": ["<f8", [2]]}]]}]}, {"list": [{"array": ["<f8", [2]]}, {"dict": []}]}'
odd = ['["outputs", {"list": [%s]}], ["cut", true]' % each for each in (pieces, arrays, '"x"', "null", '{"dict": []}')]
honest = inside._reply_to
def reply_to(do, request):
    reply = honest(do, request)
    forged = '{"dict": [["id", "%s"], %s]}' % (request["id"], odd[request.get("number", 0) % len(odd)])
    return reply if do != "cell" else forged.encode() + b"\0" + bytes(1000)
inside._reply_to = reply_to

"""A process that looks like a vLLM server to a supervisor: fake_vllm.py PORT MODEL [what goes wrong]."""

import json
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": MODEL}]}).encode() if self.path == "/v1/models" else b""
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if FAULT == "die-once" and self.path == "/v1/models" and not MARK.exists():
            MARK.touch()
            sys.exit(3)

    def log_message(self, *_: object) -> None:
        pass


PORT, MODEL, FAULT, MARK = int(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
print("loading", MODEL, flush=True)
if FAULT == "refuse":
    print("ValueError: no such draft", file=sys.stderr, flush=True)
    sys.exit(1)
if FAULT == "never":
    signal.pause()
if FAULT == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if FAULT == "worker":
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    MARK.write_text(str(worker.pid), encoding="utf-8")
HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()

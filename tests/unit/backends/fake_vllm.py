"""A process that looks like a vLLM server to a supervisor: fake_vllm.py PORT MODEL FAULT MARK [CERTIFICATE HOST].

As with vLLM, VLLM_API_KEY is the key to all below /v1.
"""

import json
import os
import signal
import ssl
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if FAULT == "mute":
            signal.pause()
        body = json.dumps({"data": [{"id": MODEL}]}).encode() if self.path == "/v1/models" else b""
        shown = self.headers["authorization"] == f"Bearer {KEY}"
        self.send_response(401 if KEY and self.path.startswith("/v1") and not shown else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if FAULT == "die-once" and self.path == "/v1/models" and not MARK.exists():
            MARK.touch()
            sys.exit(3)

    def log_message(self, *_: object) -> None:
        pass


PORT, MODEL, FAULT, MARK = int(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
KEY = os.environ.get("VLLM_API_KEY")
print("loading", MODEL, flush=True)
if FAULT == "talk":
    for number in range(1000):
        print("line", number, flush=True)
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
    print("worker started", flush=True)
server = HTTPServer((sys.argv[6] if sys.argv[6:] else "127.0.0.1", PORT), Handler)
if sys.argv[5:]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[5])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()

"""nginx as a plain reverse proxy: the limit of what a process on one core can do. It checks no key and reads no body."""

import shutil
from pathlib import Path

from bench.gateways import Gateway, Launch, Place

CONF = """\
worker_processes 1; daemon off; pid {work}/nginx.pid; error_log {work}/nginx.log error;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_buffer_size 2m; client_max_body_size 16m; keepalive_requests 10000000;
  client_body_temp_path {work}/a; proxy_temp_path {work}/b; fastcgi_temp_path {work}/c; uwsgi_temp_path {work}/d; scgi_temp_path {work}/e;
  upstream mock {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://mock; proxy_http_version 1.1; proxy_buffering off;
      proxy_set_header Connection ""; proxy_set_header Authorization "Bearer sk-upstream-secret";
    }}
  }}
}}
"""


def missing(_: Path) -> str:
    """Whether it is installed."""
    return "" if shutil.which("nginx") else "Debian, Ubuntu: sudo apt install nginx-light"


def launch(place: Place) -> Launch:
    """Its own configuration and folders; nothing of the system's."""
    conf = place.work / "nginx.conf"
    conf.write_text(CONF.format(work=place.work, upstream=place.upstream, port=place.port), encoding="utf-8")
    return Launch(["nginx", "-c", str(conf)])


GATEWAY = Gateway(name="nginx", missing=missing, launch=launch)

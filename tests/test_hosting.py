"""A built site is made one that any host can serve."""

from pathlib import Path

from tinygpt.core.hub.names import SERVER
from tinygpt.serve.headers import headers_for, read_rules
from tinygpt.site.hosting import settle

STATED = (Path(__file__).parent.parent / "web" / "public" / "_headers").read_text()


def test_addresses_are_relative_at_any_depth_and_pages_state_their_policy(tmp_path: Path) -> None:
    (tmp_path / "_headers").write_text(STATED)
    page = (
        '<head></head><a href="/">/a</a><a href="https://a/b"></a><a href="//a/b"></a><x component-url="/_astro/b.js">'
    )
    for name in ("index.html", "learn/one/index.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(page)
    settle(tmp_path)
    for name, root in (("index.html", "./"), ("learn/one/index.html", "../../")):
        head, body = (tmp_path / name).read_text().split("</head>")
        assert body == page.split("</head>")[1].replace('"/_', f'"{root}_').replace('"/"', f'"{root}"')
        policy = headers_for(read_rules(STATED), "/")["Content-Security-Policy"]
        assert policy.replace("; frame-ancestors 'none'", "") in head and "frame-ancestors" not in head


def test_the_page_may_ask_its_own_host_and_hugging_faces_and_no_other() -> None:
    policy = headers_for(read_rules(STATED), "/")["Content-Security-Policy"]
    hub = "https://huggingface.co https://*.huggingface.co https://*.hf.co"
    uploads = " ".join(
        f"https://hf-hub-lfs-{place}.s3-accelerate.amazonaws.com" for place in ("us-east-1", "eu-west-1")
    )
    assert f"; connect-src 'self' {SERVER} {hub} {uploads}; " in policy and policy.count("https:") == 6

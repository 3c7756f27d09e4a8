"""The page: its files, its headers, and that it loads and runs nothing but them."""

import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import hushvec
from hushvec.serve.keys import new_key
from hushvec.serve.routes.page import FILES
from serve.services import client_of, policy_fields

FOLDER = Path(hushvec.__file__).parent / "serve" / "page"
SOURCES = {name: (FOLDER / name).read_text(encoding="utf-8") for name in FILES}
MODULES = sorted(name for name in FILES if name.endswith(".js"))
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "json": "application/json"}
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


@pytest.fixture
def client(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite")) as made:
        yield made


def content_policy(answer):
    return dict(rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";"))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_served_as_it_is(client, name):
    answer = client.get(f"/page/{name}")
    assert answer.status_code == 200 and answer.headers["content-type"].partition(";")[0] == KINDS[name.rpartition(".")[2]]
    assert answer.content == (FOLDER / name).read_bytes()
    assert answer.headers["cache-control"] == "no-cache" and answer.headers["x-content-type-options"] == "nosniff"
    assert content_policy(answer) == POLICY


def test_the_address_of_the_service_is_the_page(client):
    assert client.get("/").content == client.get("/page/index.html").content
    assert content_policy(client.get("/")) == POLICY


def test_every_file_of_the_folder_is_served_and_no_other():
    assert {path.name for path in FOLDER.iterdir()} == set(FILES)


UNKNOWN = ["nothing", "", "INDEX.HTML", "page.css%00", "..%2Fapp.py", "%2e%2e/app.py", "%2Fetc%2Fpasswd", "page.js/", "a/b"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_name_is_not_found(client, name):
    answer = client.get(f"/page/{name}", follow_redirects=False)
    assert answer.status_code in (404, 307) and b"import" not in answer.content
    if answer.status_code == 307:
        assert name == "page.js/"


def test_what_is_no_page_keeps_its_stricter_policy(client):
    for path in ("/v1/budgets", "/v1/explore", "/healthz", "/page/nothing", "/openapi.json"):
        answer = client.get(path)
        assert content_policy(answer) == {"default-src": "'none'", "frame-ancestors": "'none'"}
        assert answer.headers["cache-control"] == "no-store"


def test_the_page_comes_without_a_key_and_its_data_does_not(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite", key=new_key())) as client:
        assert client.get("/").status_code == client.get("/page/page.js").status_code == 200
        assert client.get("/v1/budgets").status_code == client.get("/v1/explore").status_code == 401


def test_the_page_is_no_endpoint_of_the_api(client):
    assert not any(path == "/" or path.startswith("/page") for path in client.get("/openapi.json").json()["paths"])


# ---- nothing from elsewhere, nothing inline ----


@pytest.mark.parametrize("name", FILES)
def test_nothing_comes_from_another_host(name):
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[^\s\"'`)]*", SOURCES[name])
    assert [address for address in addresses if address != "http://www.w3.org/2000/svg"] == []
    assert "@import" not in SOURCES[name] and "url(" not in SOURCES[name]


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []
        self.texts = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.found and self.found[-1][0] in ("script", "style"):
            self.texts.append(data.strip())


def elements():
    parser = Elements()
    parser.feed(SOURCES["index.html"])
    return parser


def test_no_script_or_style_is_inline():
    parser = elements()
    assert [text for text in parser.texts if text] == []
    for tag, attributes in parser.found:
        assert tag not in ("style", "iframe", "object", "embed", "base")
        assert not any(name.startswith("on") or name == "style" for name in attributes), tag
        if tag == "script":
            assert attributes["src"].startswith("/page/")


@pytest.mark.parametrize("name", MODULES)
def test_texts_never_become_markup_or_code(name):
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function"
    kept = r"localStorage|sessionStorage|indexedDB|cookie"
    assert re.findall(f"{markup}|{kept}", SOURCES[name]) == []


def test_what_is_loaded_is_served():
    tags = [attributes for tag, attributes in elements().found if tag in ("script", "link", "img")]
    assert {attributes.get("src") or attributes.get("href") for attributes in tags} <= {f"/page/{name}" for name in FILES}
    for name in MODULES:
        assert set(re.findall(r'from "\./([\w.]+)"', SOURCES[name])) <= set(FILES)


def test_the_modules_find_their_elements():
    known = {attributes["id"] for _, attributes in elements().found if "id" in attributes}
    for name in MODULES:
        assert set(re.findall(r'byId\("([\w-]+)"\)', SOURCES[name])) <= known, name


def test_every_control_has_a_name():
    found = elements().found
    labels = {attributes["for"] for tag, attributes in found if tag == "label" and "for" in attributes}
    for tag, attributes in found:
        if tag in ("textarea", "input") and not attributes["id"].endswith(("api-key", "file")):   # these stand inside their labels
            assert attributes["id"] in labels
    assert [tag for tag, _ in found if tag in ("main", "header", "footer")] == ["header", "main", "footer"]


# ---- numbers on the page ----


def calculated(expression):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    source = SOURCES["bounds.js"] + f"\nconsole.log(JSON.stringify({expression}));"
    done = subprocess.run([node, "--input-type=module"], input=source, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_what_an_attacker_gains_is_never_rounded_down():
    found = calculated("[0.1, 1, 2, 4, 8, 12, 64].map((epsilon) => percentUp(amongTwo(epsilon)))")
    assert [one.replace("\u00a0", " ") for one in found] == ["52.5 %", "73.2 %", "88.1 %", "98.3 %", "99.97 %", "99.9994 %", "100 %"]
    exact = calculated("[0.1, 1, 2, 4, 8, 12, 64].map((epsilon) => 100 * amongTwo(epsilon))")
    for shown, least in zip(found, exact):
        assert least - 1e-6 <= float(shown.replace("\u00a0%", "")) <= 100


def test_half_is_half():
    assert calculated("percentUp(0.5)") == "50.0\u00a0%"


def test_what_is_left_is_never_rounded_up_nor_what_was_taken_down():
    numbers = "[999972, 999999.97, 19.99999, 17.9, 0.00001, 0, 28.00001, 1e-7, 1234567.5]"
    found = calculated(f"{numbers}.map((one) => [left(one), taken(one), formatted(one)])")
    assert found == [
        ["999,972", "999,972", "999,972"], ["999,999", "1,000,000", "1,000,000"], ["19.99", "20", "20"], ["17.9"] * 3,
        ["0.00001"] * 3, ["0"] * 3, ["28", "28.01", "28"], ["0.0000001"] * 3, ["1,234,567", "1,234,568", "1,234,568"],
    ]
    assert calculated("[0, 1, 2].map((count) => plural(count, 'charge'))") == ["0 charges", "1 charge", "2 charges"]


@pytest.mark.parametrize("epsilon, delta", [(0.1, 1e-5), (1, 0.1), (2, 0.9), (8, 1e-3), (40, 0.5), (1000, 0.5)])
def test_what_an_attacker_gains_with_delta_is_what_the_worst_mechanism_gives(epsilon, delta):
    """It shows the text with probability delta, and is randomized response between the two otherwise."""
    worst = delta + (1 - delta) / (1 + math.exp(-epsilon))
    assert calculated(f"amongTwo({epsilon}, {delta})") == pytest.approx(worst, rel=1e-12)
    assert float(calculated(f"percentUp(amongTwo({epsilon}, {delta}))").replace("\u00a0%", "")) >= 100 * worst - 1e-6

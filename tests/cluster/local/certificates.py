"""Keys, certificates and kubeconfigs of the cluster's parts, by openssl; they last a month."""

import json
from pathlib import Path
from typing import Final

from tests.cluster.local.places import API, FIRST_SERVICE, NODE, NODE_ADDRESS, STATE
from tests.cluster.local.processes import run

FOLDER: Final = STATE / "certificates"

DAYS: Final = "30"

AUTHORITY: Final = FOLDER / "authority.crt"

CLIENTS: Final = {
    "admin": ("/O=system:masters/CN=admin", ""),
    "controllers": ("/CN=system:kube-controller-manager", ""),
    "scheduler": ("/CN=system:kube-scheduler", ""),
    "proxy": ("/CN=system:kube-proxy", ""),
    "kubelet": (f"/O=system:nodes/CN=system:node:{NODE}", f"DNS:{NODE},IP:{NODE_ADDRESS}"),
    "apiserver": (
        "/CN=kube-apiserver",
        f"DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:{NODE_ADDRESS},IP:{FIRST_SERVICE}",
    ),
}
"""Whom a certificate names, and under which other names and addresses it serves."""


def make_all() -> None:
    """Make the authority, the key that signs service accounts' tokens, and each part's certificate and kubeconfig."""
    FOLDER.mkdir()
    _key("authority")
    days = ("-days", DAYS)
    run(["openssl", "req", "-x509", "-new", "-key", key("authority"), *days, "-subj", "/CN=test", "-out", AUTHORITY])
    _key("accounts")
    run(["openssl", "ec", "-in", key("accounts"), "-pubout", "-out", FOLDER / "accounts.pub"])
    for name, (subject, serves) in CLIENTS.items():
        _certificate(name, subject, serves)
        _kubeconfig(name)


def key(name: str) -> Path:
    """File of a private key."""
    return FOLDER / f"{name}.key"


def certificate(name: str) -> Path:
    """File of a certificate."""
    return FOLDER / f"{name}.crt"


def kubeconfig(name: str) -> Path:
    """File by which a part of the cluster, or a person, finds the API server."""
    return STATE / f"{name}.kubeconfig"


def _key(name: str) -> None:
    run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key(name)])


def _certificate(name: str, subject: str, serves: str) -> None:
    _key(name)
    request, extensions = FOLDER / f"{name}.csr", FOLDER / f"{name}.ext"
    extensions.write_text("extendedKeyUsage=clientAuth,serverAuth\n" + (f"subjectAltName={serves}\n" if serves else ""))
    run(["openssl", "req", "-new", "-key", key(name), "-subj", subject, "-out", request])
    signed_by = ("-CA", AUTHORITY, "-CAkey", key("authority"), "-CAcreateserial", "-days", DAYS, "-extfile", extensions)
    run(["openssl", "x509", "-req", "-in", request, *signed_by, "-out", certificate(name)])


def _kubeconfig(name: str) -> None:
    # JSON is YAML
    user = {"client-certificate": str(certificate(name)), "client-key": str(key(name))}
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tidegate",
        "contexts": [{"name": "tidegate", "context": {"cluster": "tidegate", "user": name}}],
        "clusters": [{"name": "tidegate", "cluster": {"server": API, "certificate-authority": str(AUTHORITY)}}],
        "users": [{"name": name, "user": user}],
    }
    kubeconfig(name).write_text(json.dumps(whole))

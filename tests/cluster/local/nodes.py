"""One node of Kubernetes as processes of this machine, in a network namespace of its own.

The API server, its controllers, the scheduler, a kubelet with containerd and a bridge for pods: all of it real. What is
left out is what one node for tests has no use for: cluster DNS, a second node, a network that enforces policies.
"""

import shutil
from pathlib import Path
from typing import Final

from tests.cluster.local.archives import pause_archive
from tests.cluster.local.certificates import AUTHORITY, FOLDER, certificate, key, kubeconfig, make_all
from tests.cluster.local.node_files import containerd_toml, kubelet_yaml, network_json
from tests.cluster.local.places import (
    ETCD_URL,
    NAMESPACE,
    NODE,
    NODE_ADDRESS,
    PODS,
    SERVICES,
    SOCKET,
    STATE,
)
from tests.cluster.local.processes import inside, is_alive, run, start, stop, stop_part, succeeds, wait_until
from tests.cluster.local.programs import build

NEEDED: Final = ("containerd", "ctr", "runc", "ip", "nsenter", "nft", "conntrack", "openssl")

PACKAGES: Final = "containerd runc containernetworking-plugins iproute2 nftables iptables conntrack openssl util-linux"
"""Debian's names of what the node needs beside the programs that are built."""

STOPPED_IN_ORDER: Final = ("kubelet", "proxy", "scheduler", "controllers", "apiserver", "etcd", "containerd")


def up() -> None:
    """Bring the node up; what a killed run left behind is removed first."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        raise SystemExit(f"{', '.join(missing)} not found: apt-get install {PACKAGES}")
    build()
    if is_alive("apiserver"):
        return
    down()
    for folder in ("logs", "cni", "kubelet", "containerd"):
        (STATE / folder).mkdir(parents=True)
    _network()
    make_all()
    _control_plane()
    _containers()
    _kubelet()


def down() -> None:
    """Stop and remove everything of the node but what is kept to build it again."""
    _stop_pods()
    for name in STOPPED_IN_ORDER:
        stop_part(name)
    for process_number in _shims():
        stop(process_number)
    for mount in sorted(_mounts(), reverse=True):
        succeeds(["umount", "--lazy", mount])
    if Path(f"/run/netns/{NAMESPACE}").exists():
        run(["ip", "netns", "delete", NAMESPACE])
    shutil.rmtree(STATE, ignore_errors=True)


def load(archive: Path) -> None:
    """Make the images of an archive known to the node."""
    run(_ctr("images", "import", archive))


def _network() -> None:
    run(["ip", "netns", "add", NAMESPACE])
    for command in (
        "link set lo up",
        "link add node0 type bridge",
        f"address add {NODE_ADDRESS}/24 dev node0",
        "link set node0 up",
        # addresses of Services have to be routed somewhere before kube-proxy changes them
        "route add default dev node0",
    ):
        run(["ip", "-netns", NAMESPACE, *command.split()])
    run(inside(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]))
    (STATE / "cni" / "10-pods.conflist").write_text(network_json())


def _control_plane() -> None:
    peer = "http://127.0.0.1:2380"
    start(
        "etcd",
        "etcd",
        f"--data-dir={STATE / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={ETCD_URL}",
        f"--advertise-client-urls={ETCD_URL}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    )
    start_api_server()
    start(
        "controllers",
        "kube-controller-manager",
        f"--kubeconfig={kubeconfig('controllers')}",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={key('accounts')}",
        f"--root-ca-file={AUTHORITY}",
        "--bind-address=127.0.0.1",
    )
    start(
        "scheduler",
        "kube-scheduler",
        f"--kubeconfig={kubeconfig('scheduler')}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
    )


def start_api_server() -> None:
    """Start the API server, also once more after it was stopped, and return when it is ready."""
    start(
        "apiserver",
        "kube-apiserver",
        f"--etcd-servers={ETCD_URL}",
        "--bind-address=0.0.0.0",
        "--secure-port=6443",
        f"--advertise-address={NODE_ADDRESS}",
        f"--service-cluster-ip-range={SERVICES}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        f"--client-ca-file={AUTHORITY}",
        f"--tls-cert-file={certificate('apiserver')}",
        f"--tls-private-key-file={key('apiserver')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={FOLDER / 'accounts.pub'}",
        f"--service-account-signing-key-file={key('accounts')}",
        f"--kubelet-client-certificate={certificate('admin')}",
        f"--kubelet-client-key={key('admin')}",
        "--kubelet-preferred-address-types=InternalIP",
    )
    wait_until("the API server", lambda: succeeds(inside(["kubectl", "get", "--raw", "/readyz"])))


def stop_api_server() -> None:
    """Stop the API server; everything else goes on and finds it gone."""
    stop_part("apiserver")


def _containers() -> None:
    config = STATE / "containerd.toml"
    config.write_text(containerd_toml())
    start("containerd", "containerd", "--config", config)
    wait_until("containerd", lambda: succeeds(_ctr("version")))
    load(pause_archive())


def _kubelet() -> None:
    config = STATE / "kubelet.yaml"
    config.write_text(kubelet_yaml())
    start(
        "kubelet",
        "kubelet",
        f"--config={config}",
        f"--kubeconfig={kubeconfig('kubelet')}",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_ADDRESS}",
        f"--root-dir={STATE / 'kubelet'}",
        f"--cert-dir={STATE / 'kubelet' / 'pki'}",
    )
    bind = ["create", "clusterrolebinding", "proxy", "--clusterrole=system:node-proxier", "--user=system:kube-proxy"]
    run(inside(["kubectl", *bind]))
    start(
        "proxy",
        "kube-proxy",
        f"--kubeconfig={kubeconfig('proxy')}",
        "--proxy-mode=nftables",
        f"--cluster-cidr={PODS}",
        f"--hostname-override={NODE}",
        # the kernel's table of connections is the machine's, which is not ours to size
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    )
    ready = ["kubectl", "wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=1s"]
    wait_until("the node", lambda: succeeds(inside(ready)))


def _ctr(*command: str | Path) -> list[str]:
    return inside(["ctr", f"--address={SOCKET}", "--namespace=k8s.io", *command])


def _stop_pods() -> None:
    """Containers outlive containerd, so they go first: the kubelet that would start them anew is stopped before."""
    if not is_alive("containerd"):
        return
    stop_part("kubelet")
    for container in run(_ctr("tasks", "list", "--quiet")).split():
        succeeds(_ctr("tasks", "delete", "--force", container))


def _shims() -> list[int]:
    """Processes that containerd left behind to watch over containers of this node."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if command[0].endswith(b"containerd-shim-runc-v2") and str(SOCKET).encode() in command:
                found.append(int(process.name))
    return found


def _mounts() -> list[str]:
    lines = Path("/proc/mounts").read_text().splitlines()
    return [point for point in (line.split()[1] for line in lines) if Path(point).is_relative_to(STATE)]

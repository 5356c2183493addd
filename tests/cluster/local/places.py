"""Where the test cluster keeps its things, which addresses it has, and which versions it is made of."""

import os
from pathlib import Path
from typing import Final

KUBERNETES: Final = "1.34.4"
ETCD: Final = "3.6.16"
HELM: Final = "4.3.1"

HOME: Final = Path(
    os.environ.get("TIDEGATE_CLUSTER_HOME")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate-cluster"
)
"""Cache of the test cluster, outside the repository; ``TIDEGATE_CLUSTER_HOME`` moves it."""

PROGRAMS: Final = HOME / "programs"
"""Programs built from Go modules; kept when the cluster goes."""

STATE: Final = HOME / "state"
"""Everything of a running cluster; removed with it."""

ADMIN: Final = STATE / "admin.kubeconfig"
"""Kubeconfig of an administrator of the running cluster."""

NAMESPACE: Final = "tidegate-cluster"
"""Network namespace that the built cluster lives in: nothing of it touches the machine's own network."""

NODE: Final = "tidegate-node"
NODE_ADDRESS: Final = "10.77.0.1"
PODS: Final = "10.78.0.0/24"
SERVICES: Final = "10.79.0.0/24"
FIRST_SERVICE: Final = "10.79.0.1"
"""Address of the API server's own Service."""

API: Final = f"https://{NODE_ADDRESS}:6443"
ETCD_URL: Final = "http://127.0.0.1:2379"
SOCKET: Final = STATE / "containerd.sock"

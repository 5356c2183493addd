"""Configuration files of the node's container runtime, its kubelet and its pods' network."""

import json

from tests.cluster.local.archives import PAUSE
from tests.cluster.local.certificates import AUTHORITY, certificate, key
from tests.cluster.local.places import NODE_ADDRESS, PODS, SOCKET, STATE


def network_json() -> str:
    """Pods on one bridge, with addresses from ``PODS``."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}, indent=2)


def containerd_toml() -> str:
    """A containerd with everything of it under ``STATE``."""
    return f"""\
version = 2
root = "{STATE}/containerd/root"
state = "{STATE}/containerd/state"

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
# lowering an OOM score needs a capability that root in a container may lack
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{STATE}/cni"
"""


def kubelet_yaml() -> str:
    """A kubelet that leaves the machine's cgroups and disk alone. It reads block style only."""
    return f"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {NODE_ADDRESS}
containerRuntimeEndpoint: unix://{SOCKET}
authentication:
  anonymous:
    enabled: false
  webhook:
    enabled: false
  x509:
    clientCAFile: {AUTHORITY}
authorization:
  mode: AlwaysAllow
tlsCertFile: {certificate("kubelet")}
tlsPrivateKeyFile: {key("kubelet")}
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
featureGates:
  # for the kubelet of 1.34 dies of a pod that is deleted while it starts
  InPlacePodVerticalScaling: false
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: 100Mi
  nodefs.available: 1%
  imagefs.available: 1%
"""

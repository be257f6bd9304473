// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/node"
)

var _ = Describe("Node", func() {
	var files map[string][]byte

	BeforeEach(func() {
		var err error
		files, err = node.RenderForTest()
		Expect(err).NotTo(HaveOccurred())
	})

	It("should configure a kubelet for either version of cgroups that never collects an image", func() {
		kubelet := map[string]any{}
		Expect(yaml.UnmarshalStrict(files["kubelet"], &kubelet)).To(Succeed())
		Expect(kubelet).To(HaveKeyWithValue("failCgroupV1", false))
		Expect(kubelet).To(HaveKeyWithValue("cgroupDriver", "cgroupfs"))
		Expect(kubelet).To(HaveKeyWithValue("cgroupRoot", "/p-seed-x"))
		Expect(kubelet).To(HaveKeyWithValue("imageGCHighThresholdPercent", BeEquivalentTo(100)))
		Expect(kubelet).To(HaveKeyWithValue("maxPods", BeEquivalentTo(200)))
		Expect(kubelet).To(HaveKeyWithValue("clusterDNS", []any{"10.97.0.10"}))
		Expect(kubelet).To(HaveKeyWithValue("containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock"))
	})

	It("should let nothing pass unjudged, and judge what makes a connection only", func() {
		seed := config.Seed{IP: "10.250.0.11", PodCIDR: "10.241.0.0/16"}
		rules := node.PolicyRules(config.PoliciesOn, seed)
		Expect(rules).To(And(
			ContainSubstring("-s 10.241.0.0/16 -j NFQUEUE --queue-num 100\n"),
			ContainSubstring("-d 10.241.0.0/16 -j NFQUEUE --queue-num 100\n"),
			ContainSubstring("-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"),
			ContainSubstring("-I INPUT -j LIVECPM-POLICIES"),
			ContainSubstring("-I POSTROUTING -m owner ! --uid-owner 0 -j LIVECPM-POLICIES"),
			Not(ContainSubstring("bypass")),
			Not(ContainSubstring("10.250.0.11")),
		))
		Expect(node.PolicyRules(config.PoliciesPackets, seed)).To(And(
			ContainSubstring("--ctstate ESTABLISHED --ctdir REPLY -j RETURN"),
			Not(ContainSubstring("ESTABLISHED,RELATED"))))
	})

	It("should let pass what a control plane sends that is on none of the nodes, and nothing else", func() {
		seed := config.Seed{IP: "10.250.0.11", PodCIDR: "10.241.0.0/16", Nodes: make([]config.Node, 3)}
		for _, policies := range []config.Policies{config.PoliciesOn, config.PoliciesPackets} {
			rules := node.PolicyRules(policies, seed)
			Expect(rules).To(And(
				ContainSubstring(":LIVECPM-POLICIES - [0:0]\n-A LIVECPM-POLICIES -s 10.250.0.11 -j RETURN\n"),
				ContainSubstring("-s 10.241.0.0/16 -j NFQUEUE --queue-num 100\n"),
				ContainSubstring("-d 10.241.0.0/16 -j NFQUEUE --queue-num 100\n"),
			))
			Expect(strings.Count(rules, "10.250.0.11")).To(Equal(1))
		}
	})

	It("should keep the service proxy off the machine's limits", func() {
		proxy := map[string]any{}
		Expect(yaml.UnmarshalStrict(files["proxy"], &proxy)).To(Succeed())
		Expect(proxy).To(HaveKeyWithValue("mode", "nftables"))
		Expect(proxy).To(HaveKeyWithValue("conntrack", HaveKeyWithValue("maxPerCore", BeEquivalentTo(0))))
	})

	It("should configure the runtime with the landscape's own paths", func() {
		Expect(string(files["containerd"])).To(And(
			ContainSubstring(`root = "/s/containerd"`),
			ContainSubstring(`sandbox = "r/pause:t"`),
			ContainSubstring(`BinaryName = "/usr/sbin/runc"`),
			ContainSubstring(`conf_dir = "/s/conf/cni"`),
		))
		Expect(string(files["cni"])).
			To(And(ContainSubstring(`"subnet": "10.241.0.0/16"`), ContainSubstring(`"ipMasqBackend": "nftables"`)))
	})

	It("should install DNS and volumes", func() {
		for _, name := range []string{"coredns", "provisioner", "single-node", "small-machine"} {
			objects, err := apply.Decode(files[name])
			Expect(err).NotTo(HaveOccurred())
			Expect(objects).NotTo(BeEmpty())
			Expect(objects).To(HaveEach(Satisfy(func(object *unstructured.Unstructured) bool {
				return object.GetKind() != "" && object.GetName() != ""
			})))
		}
		Expect(string(files["coredns"])).To(And(ContainSubstring("forward . 10.250.0.10"),
			ContainSubstring("cache 30\n"), ContainSubstring("ttl 30\n"), ContainSubstring("clusterIP: 10.97.0.10")))
		Expect(string(files["provisioner"])).To(ContainSubstring(`"paths": ["/s/volumes"]`))
		Expect(string(files["provisioner"])).To(ContainSubstring(`"paths": ["/t/volumes"]`))
		Expect(string(files["single-node"])).To(ContainSubstring("topologySpreadConstraints"))
		Expect(string(files["small-machine"])).To(And(Not(ContainSubstring("podAntiAffinity")),
			ContainSubstring(`env{name: "GOGC", value: "300"}`), ContainSubstring(`env{name: "GOMAXPROCS", value: "7"}`)))
	})

	It("should keep a share of the processors for all that etcd's messages pass through", func() {
		// The containers of etcd's members, ingress gateways, and livecpm's relays and fronts.
		Expect(string(files["small-machine"])).To(
			ContainSubstring(`"cpu": c.name in ["etcd", "istio-proxy", "relay", "front"] ? "40m"`))
	})

	It("should read which images a node has", func() {
		Expect(node.ParseImages("REF TYPE DIGEST SIZE PLATFORMS LABELS\nr/a:t " +
			"application/vnd.oci.image.manifest.v1+json sha256:1 12.3 MiB linux/amd64 -\n\n")).
			To(HaveKeyWithValue("r/a:t", "sha256:1"))
	})

	It("should find the API server's cluster IP", func() {
		Expect(node.FirstIP("10.97.0.0/16")).To(Equal("10.97.0.1"))
		_, err := node.FirstIP("nonsense")
		Expect(err).To(HaveOccurred())
	})
})

var _ = Describe("EnsureSocket", func() {
	It("should leave a socket behind that nobody listens on, once", func() {
		// The test's own folder may have a longer name than a socket can have.
		folder, err := os.MkdirTemp("", "socket")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, folder)
		path := filepath.Join(folder, "s")
		Expect(node.EnsureSocket(path)).To(Succeed())
		Expect(node.EnsureSocket(path)).To(Succeed())
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Type()).To(Equal(os.ModeSocket))
		Expect(node.EnsureSocket(filepath.Join(folder, "missing", "s"))).
			To(MatchError(ContainSubstring("failed to make socket")))
	})
})

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gardener/gardener/extensions/pkg/controller/operatingsystemconfig"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"github.com/livecpm/livecpm/test/standins/machine/hollow"
)

var _ = Describe("ParseUserData", func() {
	file := func(path, content string, plain bool) extensionsv1alpha1.File {
		return extensionsv1alpha1.File{Path: path, Content: extensionsv1alpha1.FileContent{
			Inline: &extensionsv1alpha1.FileContentInline{Data: content}, TransmitUnencoded: &plain,
		}}
	}
	// script is what provider-local makes of the files, by the functions that it uses.
	script := func(files ...extensionsv1alpha1.File) string {
		GinkgoHelper()
		content, err := operatingsystemconfig.FilesToDiskScript(context.Background(), nil, "", files)
		Expect(err).NotTo(HaveOccurred())
		return operatingsystemconfig.WrapProvisionOSCIntoOneshotScript(
			"#!/bin/bash\n" + content + "\nsystemctl daemon-reload\n")
	}
	const config = `apiServer:
  caFile: /var/lib/gardener-node-agent/cluster-ca.crt
  server: https://api.workers.demo.shoots.livecpm.example
controllers:
  operatingSystemConfig:
    kubernetesVersion: 1.36.3
    secretName: gardener-node-agent-one-1234
`
	all := func() []extensionsv1alpha1.File {
		return []extensionsv1alpha1.File{
			file("/var/lib/gardener-node-agent/cluster-ca.crt", "-----BEGIN", false),
			file("/var/lib/gardener-node-agent/credentials/bootstrap-token", "abcdef.0123456789abcdef", true),
			file("/var/lib/gardener-node-agent/machine-name", "shoot--demo--workers-one-z1-abc", true),
			file("/var/lib/gardener-node-agent/init.sh", "#!/bin/bash", false),
			file("/var/lib/gardener-node-agent/config-v1alpha1.yaml", config, false),
		}
	}

	It("should read what a machine is told", func() {
		Expect(hollow.ParseUserData(script(all()...))).To(Equal(&hollow.UserData{
			Server: "https://api.workers.demo.shoots.livecpm.example", CA: []byte("-----BEGIN"),
			Token:       "abcdef.0123456789abcdef",
			MachineName: "shoot--demo--workers-one-z1-abc", SecretName: "gardener-node-agent-one-1234",
			KubernetesVersion: "1.36.3",
		}))
	})

	DescribeTable("should say what is missing", func(index int, message string) {
		files := all()
		files = append(files[:index], files[index+1:]...)
		_, err := hollow.ParseUserData(script(files...))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("the CA", 0, "its CA"),
		Entry("the token", 1, "a bootstrap token"),
		Entry("the machine's name", 2, "the name of the machine"),
		Entry("the configuration", 4, "the user data lacks"),
	)
})

var _ = Describe("NodeAddress", func() {
	It("should be as different as the pods' addresses", func() {
		nodes := netip.MustParsePrefix("10.180.0.0/16")
		Expect(hollow.NodeAddress(nodes, netip.MustParseAddr("10.241.3.7"))).
			To(Equal(netip.MustParseAddr("10.180.3.7")))
		Expect(hollow.NodeAddress(nodes, netip.MustParseAddr("10.241.3.8"))).
			To(Equal(netip.MustParseAddr("10.180.3.8")))
	})
})

var _ = Describe("RunningStatus", func() {
	It("should be that of a pod that is ready", func() {
		always := corev1.ContainerRestartPolicyAlways
		pod := &corev1.Pod{
			Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}},
				Containers:     []corev1.Container{{Name: "main", Image: "some:image"}},
				ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "gate"}},
			},
			Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
			},
		}
		status := hollow.RunningStatus(pod, "10.180.0.2", "10.181.0.5", metav1.Now())
		Expect(status.Phase).To(Equal(corev1.PodRunning))
		Expect(status.PodIP).To(Equal("10.181.0.5"))
		Expect(status.HostIP).To(Equal("10.180.0.2"))
		for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized,
			corev1.ContainersReady, corev1.PodReady, "gate"} {
			Expect(status.Conditions).
				To(ContainElement(And(HaveField("Type", kind), HaveField("Status", corev1.ConditionTrue))))
		}
		Expect(status.InitContainerStatuses[0].State.Terminated).NotTo(BeNil())
		Expect(status.InitContainerStatuses[1].State.Running).NotTo(BeNil())
		Expect(status.ContainerStatuses).
			To(HaveExactElements(And(HaveField("Name", "main"), HaveField("Ready", true),
				HaveField("State.Running", Not(BeNil())))))
	})
})

var _ = Describe("Node", func() {
	var (
		ctx  = context.Background()
		node *hollow.Node
	)

	BeforeEach(func() {
		node = &hollow.Node{
			Log: logr.Discard(), Name: "machine-x", IP: net.ParseIP("10.180.0.2"),
			Data: &hollow.UserData{SecretName: "gardener-node-agent-one", KubernetesVersion: "1.36.3"},
		}
	})

	It("should report the operating system configuration as applied, and keep the lease of gardener-node-agent",
		func() {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system",
				Name: "gardener-node-agent-one", Annotations: map[string]string{"checksum/data-script": "1234"}}}
			c := fake.NewClientset(secret, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine-x"}})
			Expect(node.Agent(ctx, c)).To(Succeed())
			Expect(node.Agent(ctx, c)).To(Succeed())
			got, err := c.CoreV1().Nodes().Get(ctx, "machine-x", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(got.Annotations).To(HaveKeyWithValue("checksum/cloud-config-data", "1234"))
			lease, err := c.CoordinationV1().Leases("kube-system").Get(ctx, "gardener-node-agent-machine-x",
				metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(lease.Spec.RenewTime.Time).To(BeTemporally("~", time.Now(), time.Minute))
		})

	It("should have the labels that a kubelet gives its Node", func() {
		c := fake.NewClientset()
		Expect(node.Register(ctx, c)).To(Succeed())
		got, err := c.CoreV1().Nodes().Get(ctx, "machine-x", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Labels).To(And(HaveKeyWithValue("kubernetes.io/hostname", "machine-x"),
			HaveKeyWithValue("worker.gardener.cloud/kubernetes-version", "1.36.3")))
		Expect(node.Register(ctx, c)).To(Succeed(), "a machine may be restarted")
	})

	It("should become ready again when somebody has called it unknown", func() {
		c := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine-x"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}},
		}})
		Expect(node.KeepNode(ctx, c)).To(Succeed())
		got, err := c.CoreV1().Nodes().Get(ctx, "machine-x", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Status.Conditions).
			To(ContainElement(And(HaveField("Type", corev1.NodeReady), HaveField("Status", corev1.ConditionTrue))))
		Expect(got.Status.Addresses).
			To(ContainElement(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.180.0.2"}))
		Expect(got.Status.NodeInfo.KubeletVersion).To(Equal("v1.36.3"))
	})

	It("should accept what is forwarded to a pod's port as the gardenlet's check does", func() {
		server := httptest.NewServer(node.KubeletHandler())
		DeferCleanup(server.Close)
		transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: server.URL})
		Expect(err).NotTo(HaveOccurred())
		target, err := url.Parse(server.URL + "/portForward/kube-system/vpn-shoot")
		Expect(err).NotTo(HaveOccurred())
		stop, ready := make(chan struct{}), make(chan struct{})
		forwarder, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", target),
			[]string{"0:22"}, stop, ready, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- forwarder.ForwardPorts() }()
		Eventually(ready).Should(BeClosed())
		close(stop)
		Eventually(ended).Should(Receive())
	})

	It("should answer on the echo port that is forwarded, and on no other one", func() {
		server := httptest.NewServer(node.KubeletHandler())
		DeferCleanup(server.Close)
		transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: server.URL})
		Expect(err).NotTo(HaveOccurred())
		target, err := url.Parse(server.URL + "/portForward/kube-system/client/some-uid")
		Expect(err).NotTo(HaveOccurred())
		ask := func(port int) (answer, problem string) {
			conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", target).
				Dial(portforward.PortForwardProtocolV1Name)
			Expect(err).NotTo(HaveOccurred())
			defer func() { _ = conn.Close() }()
			header := http.Header{}
			header.Set(corev1.PortHeader, strconv.Itoa(port))
			header.Set(corev1.PortForwardRequestIDHeader, "0")
			header.Set(corev1.StreamType, corev1.StreamTypeError)
			errors, err := conn.CreateStream(header)
			Expect(err).NotTo(HaveOccurred())
			header.Set(corev1.StreamType, corev1.StreamTypeData)
			data, err := conn.CreateStream(header)
			Expect(err).NotTo(HaveOccurred())
			_, _ = io.WriteString(data, "hello")
			Expect(data.Close()).To(Succeed())
			content, _ := io.ReadAll(data)
			if port != hollow.EchoPort {
				text, _ := io.ReadAll(errors)
				return string(content), string(text)
			}
			return string(content), ""
		}
		answer, _ := ask(hollow.EchoPort)
		Expect(answer).To(Equal("hello"))
		answer, problem := ask(22)
		Expect(answer).To(BeEmpty())
		Expect(problem).To(Equal("nothing listens on a hollow node"))
	})

	It("should answer a command with what it gets", func(ctx SpecContext) {
		server := httptest.NewServer(node.KubeletHandler())
		DeferCleanup(server.Close)
		target, err := url.Parse(server.URL + "/exec/kube-system/client/some-uid/client?stdin=true&stdout=true")
		Expect(err).NotTo(HaveOccurred())
		transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: server.URL})
		Expect(err).NotTo(HaveOccurred())
		command, err := remotecommand.NewSPDYExecutorForProtocols(transport, upgrader, "POST", target,
			"v4.channel.k8s.io")
		Expect(err).NotTo(HaveOccurred())
		out := &bytes.Buffer{}
		Expect(command.StreamWithContext(ctx,
			remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: out})).To(Succeed())
		Expect(out.String()).To(Equal("hello"))
	})

	It("should write lines of a log that is followed, until nobody reads any more", func(ctx SpecContext) {
		server := httptest.NewServer(node.KubeletHandler())
		DeferCleanup(server.Close)
		reading, stop := context.WithCancel(ctx)
		request, err := http.NewRequestWithContext(reading, http.MethodGet,
			server.URL+"/containerLogs/kube-system/coredns/coredns?follow=true", nil)
		Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		lines := bufio.NewScanner(response.Body)
		for range 2 {
			Expect(lines.Scan()).To(BeTrue())
			Expect(lines.Text()).To(Equal("kube-system/coredns on hollow node machine-x"))
		}
		stop()
		Expect(lines.Scan()).To(BeFalse())
	})

	It("should answer requests for health and logs", func() {
		for path, expected := range map[string]string{"/healthz": "ok",
			"/containerLogs/kube-system/coredns/coredns": "kube-system/coredns on hollow node machine-x\n"} {
			recorder := httptest.NewRecorder()
			node.KubeletHandler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			Expect(recorder.Code).To(Equal(200))
			Expect(recorder.Body.String()).To(Equal(expected))
		}
	})
})

var _ = Describe("The VPN client", func() {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		projection := func(name, key, path string) corev1.VolumeProjection {
			return corev1.VolumeProjection{
				Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name},
					Items: []corev1.KeyToPath{{Key: key, Path: path}}},
			}
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "vpn-shoot-x"},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "vpn-shoot", Env: []corev1.EnvVar{
					{Name: "ENDPOINT", Value: "api.example"}, {Name: "OPENVPN_PORT", Value: "8443"},
					{Name: "REVERSED_VPN_HEADER", Value: "outbound|1194||vpn-seed-server.ns.svc.cluster.local"},
					{Name: "REVERSED_VPN_HEADER_KEY", Value: "X-Gardener-Destination"},
				}, VolumeMounts: []corev1.VolumeMount{{Name: "tlsauth", MountPath: "/srv/secrets/tlsauth"},
					{Name: "certs", MountPath: "/srv/secrets/vpn-client"}}}},
				Volumes: []corev1.Volume{
					{Name: "tlsauth", VolumeSource: corev1.VolumeSource{
						Secret: &corev1.SecretVolumeSource{SecretName: "auth"},
					}},
					{Name: "certs",
						VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
							Sources: []corev1.VolumeProjection{
								projection("ca", "bundle.crt", "ca.crt"), projection("client", "tls.crt", "tls.crt"),
								projection("client", "tls.key", "tls.key"),
							}}}},
				},
			}}
		change(p)
		return p
	}
	secrets := func() *fake.Clientset {
		return fake.NewClientset(
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "auth"},
				Data: map[string][]byte{"vpn.tlsauth": []byte("0")}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ca"},
				Data: map[string][]byte{"bundle.crt": []byte("1")}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "client"},
				Data: map[string][]byte{"tls.crt": []byte("2"), "tls.key": []byte("3")}},
		)
	}

	It("should be known by its environment and have what is mounted into its pod", func() {
		folder := GinkgoT().TempDir()
		mounts, is, err := hollow.VPNMounts(context.Background(), secrets(), pod(func(*corev1.Pod) {}), folder)
		Expect(err).NotTo(HaveOccurred())
		Expect(is).To(BeTrue())
		found := map[string]string{}
		for _, mount := range mounts {
			files, err := os.ReadDir(mount.Source)
			Expect(err).NotTo(HaveOccurred())
			for _, file := range files {
				content, err := os.ReadFile(filepath.Join(mount.Source, file.Name()))
				Expect(err).NotTo(HaveOccurred())
				found[filepath.Join(mount.Target, file.Name())] = string(content)
			}
		}
		Expect(found).To(Equal(map[string]string{
			"/srv/secrets/tlsauth/vpn.tlsauth": "0", "/srv/secrets/vpn-client/ca.crt": "1",
			"/srv/secrets/vpn-client/tls.crt": "2", "/srv/secrets/vpn-client/tls.key": "3",
		}))
	})

	It("should not be any other pod", func() {
		_, is, err := hollow.VPNMounts(context.Background(), secrets(),
			pod(func(p *corev1.Pod) { p.Spec.Containers[0].Env = p.Spec.Containers[0].Env[1:] }), GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		Expect(is).To(BeFalse())
	})

	It("should say what it misses", func() {
		_, _, err := hollow.VPNMounts(context.Background(), secrets(), pod(func(p *corev1.Pod) {
			p.Spec.Volumes = p.Spec.Volumes[:1]
		}), GinkgoT().TempDir())
		Expect(err).To(MatchError("the pod has no volume certs"))
		client := secrets()
		Expect(client.CoreV1().Secrets("kube-system").Delete(context.Background(), "ca", metav1.DeleteOptions{})).
			To(Succeed())
		_, _, err = hollow.VPNMounts(context.Background(), client, pod(func(*corev1.Pod) {}), GinkgoT().TempDir())
		Expect(err).To(MatchError(ContainSubstring("failed to get Secret kube-system/ca")))
	})
})

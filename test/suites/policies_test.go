// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/network"
	"github.com/livecpm/livecpm/test/landscape/node"
	"github.com/livecpm/livecpm/test/landscape/process"
)

const (
	// shut is how long a connection may wait for an answer before it counts as forbidden: packets without a policy are
	// dropped, and a pod of the same node answers within a fraction of it.
	shut = 3 * time.Second
	// policiesSoon bounds how long it takes until a pod runs, and until the seed's controllers have seen it.
	policiesSoon = 2 * time.Minute
	// policyBurst is how many connections are made at once, policyBursts how often. Three kube-apiservers have 180
	// connections to etcd, for each of which they look up a name.
	policyBurst, policyBursts = 400, 10
	// portKubeAPIServer is where a shoot's kube-apiserver listens.
	portKubeAPIServer = 443
)

// plainLabels are the labels of the pod that no policy of Gardener is about.
var plainLabels = map[string]string{"livecpm-test": "plain"}

// Pods of our own are put beside the control plane, with and without the labels that Gardener's policies ask for, and
// connections are made from where they are.
var _ = Describe("NetworkPolicies", Label(labelPolicies), Ordered, func() {
	var (
		cfg *config.Config
		c   client.Client
		// namespace is that of the shoot, in the seed where its control plane is.
		namespace            string
		home                 config.Seed
		etcd, kubeAPIServer  string
		plain, allowed, like *corev1.Pod
	)

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		bringUp(ctx, cfg)
		Expect(cfg.Policies).NotTo(Equal(config.PoliciesOff), "nothing is enforced: unset "+config.EnvPolicies)
		c, home, namespace = seedOfShoot(ctx, cfg)
		etcd = addressOf(ctx, c, namespace, map[string]string{"app": "etcd-statefulset", "role": "main"})
		kubeAPIServer = addressOf(ctx, c, namespace, map[string]string{"app": "kubernetes", "role": "apiserver"})

		plain = guest(ctx, c, client.ObjectKey{Namespace: namespace, Name: "plain"}, plainLabels)
		allowed = guest(ctx, c, client.ObjectKey{Namespace: namespace, Name: "allowed"}, map[string]string{
			gardenerutils.NetworkPolicyLabel(naming.ClientServiceName("main"), naming.PortClient): "allowed",
			gardenerutils.NetworkPolicyLabel("kube-apiserver", portKubeAPIServer):                 "allowed",
			v1beta1constants.LabelNetworkPolicyToRuntimeAPIServer:                                 "allowed",
		})
		// What a relay has, where no migration has permitted it anything.
		like = guest(ctx, c, client.ObjectKey{Namespace: namespace, Name: "like-a-relay"}, map[string]string{
			"app": exposure.Name,
			v1beta1constants.LabelNetworkPolicyToPublicNetworks:  "allowed",
			v1beta1constants.LabelNetworkPolicyToPrivateNetworks: "allowed",
		})
	}, NodeTimeout(upTimeout))

	It("should let nobody in who has no label for it", func(ctx SpecContext) {
		for _, pod := range []*corev1.Pod{plain, like} {
			for _, target := range []string{address(etcd, naming.PortClient), address(etcd, naming.PortPeerSource),
				address(kubeAPIServer, portKubeAPIServer), address(allowed.Status.PodIP, 80)} {
				Expect(connect(ctx, pod, target)).To(MatchError(ContainSubstring("i/o timeout")),
					"%s to %s", pod.Name, target)
			}
		}
	}, NodeTimeout(5*time.Minute))

	It("should let those in who have it, and nowhere else", func(ctx SpecContext) {
		// The policies for the labels may be as new as the pod.
		for _, target := range []string{address(etcd, naming.PortClient), address(kubeAPIServer, portKubeAPIServer)} {
			Eventually(ctx, connect).WithArguments(ctx, allowed, target).Within(policiesSoon).Should(Succeed(), target)
		}
		Expect(connect(ctx, allowed, address(etcd, naming.PortPeerSource))).
			To(MatchError(ContainSubstring("i/o timeout")))
	}, NodeTimeout(5*time.Minute))

	It("should let only those reach the seed's API server who have the label for it", func(ctx SpecContext) {
		kubernetes := &corev1.Service{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, kubernetes)).To(Succeed())
		target := address(kubernetes.Spec.ClusterIP, 443)
		Expect(connect(ctx, allowed, target)).To(Succeed())
		Expect(connect(ctx, plain, target)).To(MatchError(ContainSubstring("i/o timeout")))
	}, NodeTimeout(time.Minute))

	It("should let a relay go out to the garden and to the other seed's gateway, and nobody without its labels",
		func(ctx SpecContext) {
			targets := []string{address(cfg.Garden.IP, 53)}
			for _, seed := range cfg.Seeds {
				if seed.Name != home.Name {
					targets = append(targets, address(seed.LoadBalancerIP, 443))
				}
			}
			for _, target := range targets {
				// The load balancer accepts, and resets what its gateway has no listener for, as without any shoot.
				Expect(connect(ctx, like, target)).To(Or(Succeed(), MatchError(syscall.ECONNRESET)), target)
				Expect(connect(ctx, plain, target)).To(MatchError(ContainSubstring("i/o timeout")), target)
			}
		}, NodeTimeout(time.Minute))

	It("should lose no packet while many connections are made at once and policies change", func(ctx SpecContext) {
		before := lostPackets(cfg, home)
		stop := changePolicies(ctx, c, namespace)
		defer stop()
		path, err := networkOf(allowed.Status.PodIP)
		Expect(err).NotTo(HaveOccurred())
		target := address(etcd, naming.PortClient)
		for range policyBursts {
			var all errgroup.Group
			for range policyBurst {
				all.Go(func() error { return connectFrom(ctx, path, target) })
			}
			Expect(all.Wait()).To(Succeed())
		}
		stop()
		Expect(lostPackets(cfg, home)).To(Equal(before))
	}, NodeTimeout(5*time.Minute))

	It("should know no policy of a migration while there is none", func(ctx SpecContext) {
		expectNoPolicyOfMigrations(ctx, cfg)
	}, NodeTimeout(time.Minute))
})

// changePolicies makes a policy for the plain pod and deletes it, again and again, until it is told to stop.
func changePolicies(ctx context.Context, c client.Client, namespace string) (stop func()) {
	changing, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "policies-changing"},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: plainLabels}},
	}
	go func() {
		defer GinkgoRecover()
		defer close(ended)
		for changing.Err() == nil {
			Expect(c.Create(ctx, policy.DeepCopy())).To(Succeed())
			Expect(c.Delete(ctx, policy.DeepCopy())).To(Succeed())
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// lost is what is known of packets that nobody has judged.
type lost struct {
	// full and slow count those that the kernel has dropped because too many waited, or the judge did not read in time.
	full, slow string
	// failed counts the verdicts on packets that were gone, and the times that the judge was too slow.
	failed int
}

// lostPackets says how many packets were lost on each node of the seed.
func lostPackets(cfg *config.Config, seed config.Seed) map[string]lost {
	GinkgoHelper()
	out := map[string]lost{}
	for _, host := range seed.Nodes {
		var queues []byte
		Expect(process.Namespaces{Net: network.Path(host.Netns)}.Do(func() (err error) {
			queues, err = os.ReadFile("/proc/thread-self/net/netfilter/nfnetlink_queue")
			return err
		})).To(Succeed())
		fields := strings.Fields(string(queues)) // the sixth and seventh column of the only queue
		Expect(len(fields)).To(BeNumerically(">=", 7), "the queue of %s: %q", host.Name, queues)
		log, err := os.ReadFile(node.PolicyLog(cfg, host))
		Expect(err).NotTo(HaveOccurred())
		out[host.Name] = lost{full: fields[5], slow: fields[6],
			failed: bytes.Count(log, []byte("Could not receive message"))}
	}
	return out
}

// seedOfShoot returns the seed in which the landscape's shoot has its control plane, a client of it, and the namespace.
func seedOfShoot(ctx context.Context, cfg *config.Config) (client.Client, config.Seed, string) {
	GinkgoHelper()
	namespace := "shoot--demo--" + cfg.Shoot
	for _, seed := range cfg.Seeds {
		c := seedClient(cfg, seed)
		if err := c.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{}); err == nil {
			return c, seed, namespace
		}
	}
	Fail("no seed has the namespace " + namespace)
	return nil, config.Seed{}, ""
}

func seedClient(cfg *config.Config, seed config.Seed) client.Client {
	GinkgoHelper()
	restConfig, err := apply.RESTConfig(cfg.Kubeconfig(seed.Name))
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(restConfig, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// expectNoPolicyOfMigrations checks that no seed has a NetworkPolicy of a migration.
func expectNoPolicyOfMigrations(ctx context.Context, cfg *config.Config) {
	GinkgoHelper()
	for _, seed := range cfg.Seeds {
		policies := &networkingv1.NetworkPolicyList{}
		Expect(seedClient(cfg, seed).List(ctx, policies, client.MatchingLabels{
			exposure.LabelKey: exposure.LabelValue})).To(Succeed())
		Expect(policies.Items).To(BeEmpty(), seed.Name)
	}
}

// addressOf returns the address of a ready pod with the labels.
func addressOf(ctx context.Context, c client.Client, namespace string, labels map[string]string) string {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(labels))).To(Succeed())
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return pod.Status.PodIP
			}
		}
	}
	Fail(fmt.Sprintf("no pod with the labels %v is ready", labels))
	return ""
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// guest runs a pod of this name that does nothing, until the specs are over.
func guest(ctx context.Context, c client.Client, name client.ObjectKey, labels map[string]string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: "policies-" + name.Name, Labels: labels},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "pause", Image: image.Ref("pause")}},
		},
	}
	Expect(client.IgnoreNotFound(c.Delete(ctx, pod.DeepCopy()))).To(Succeed())
	Eventually(ctx, func() error { return c.Create(ctx, pod.DeepCopy()) }).Within(policiesSoon).Should(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(c.Delete(ctx, pod.DeepCopy()))).To(Succeed())
	}, NodeTimeout(time.Minute))
	Eventually(ctx, func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.PodIP).NotTo(BeEmpty())
	}).Within(policiesSoon).Should(Succeed())
	return pod
}

// connect makes a TCP connection from where the pod is.
func connect(ctx context.Context, pod *corev1.Pod, target string) error {
	path, err := networkOf(pod.Status.PodIP)
	if err != nil {
		return err
	}
	return connectFrom(ctx, path, target)
}

// connectFrom makes a TCP connection from a network namespace.
func connectFrom(ctx context.Context, path, target string) error {
	return process.Namespaces{Net: path}.Do(func() error {
		connection, err := (&net.Dialer{Timeout: shut}).DialContext(ctx, "tcp", target)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// networkOf finds the network namespace that has the address, by the processes in it.
func networkOf(ip string) (string, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return "", err
	}
	seen := map[string]bool{}
	for _, folder := range folders {
		path := filepath.Join(folder, "ns", "net")
		namespace, err := os.Readlink(path)
		if err != nil || seen[namespace] {
			continue
		}
		seen[namespace] = true
		if has, err := hasAddress(path, ip); err == nil && has {
			return path, nil
		}
	}
	return "", errors.New("no network namespace has the address " + ip)
}

func hasAddress(path, ip string) (bool, error) {
	namespace, err := netns.GetFromPath(path)
	if err != nil {
		return false, err
	}
	defer namespace.Close()
	handle, err := netlink.NewHandleAt(namespace)
	if err != nil {
		return false, err
	}
	defer handle.Close()
	addresses, err := handle.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return false, err
	}
	for _, address := range addresses {
		if strings.Split(address.IPNet.String(), "/")[0] == ip {
			return true, nil
		}
	}
	return false, nil
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow_test

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	gardenerkubernetes "github.com/gardener/gardener/pkg/client/kubernetes"
	upstream "github.com/gardener/gardener/pkg/component/networking/apiserverproxy"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	"github.com/vishvananda/netlink"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	certutil "k8s.io/client-go/util/cert"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/test/landscape/native/nativetest"
	"github.com/livecpm/livecpm/test/program"
	"github.com/livecpm/livecpm/test/standins/machine/hollow"
	"github.com/livecpm/livecpm/test/standins/machine/incluster"
)

// interfaces are network interfaces on which nothing depends: all of 127.0.0.0/8 is there without them.
type interfaces struct {
	mu    sync.Mutex
	addrs map[string][]string
}

func (i *interfaces) LinkByName(name string) (netlink.Link, error) {
	return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name}}, nil
}
func (i *interfaces) LinkAdd(netlink.Link) error                         { return nil }
func (i *interfaces) LinkSetUp(netlink.Link) error                       { return nil }
func (i *interfaces) LinkList() ([]netlink.Link, error)                  { return nil, nil }
func (i *interfaces) AddrList(netlink.Link, int) ([]netlink.Addr, error) { return nil, nil }
func (i *interfaces) AddrDel(netlink.Link, *netlink.Addr) error          { return nil }
func (i *interfaces) AddrAdd(link netlink.Link, addr *netlink.Addr) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.addrs[link.Attrs().Name] = append(i.addrs[link.Attrs().Name], addr.IP.String())
	return nil
}

func (i *interfaces) on(name string) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.addrs[name]
}

// envoys returns the folder with the image of envoy.
func envoys() string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	Expect(os.Symlink(nativetest.EnvoyImage(), filepath.Join(folder, "envoy"))).To(Succeed())
	return folder
}

// shootAPI is a kube-apiserver that has ConfigMaps, and the Service default/kubernetes with an EndpointSlice.
type shootAPI struct {
	mu         sync.Mutex
	configMaps map[string]*corev1.ConfigMap
	service    *corev1.Service
	slice      *discoveryv1.EndpointSlice
	asked      map[string]int // by token
}

func (s *shootAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r.Header.Get("Authorization")]++
	w.Header().Set("Content-Type", "application/json")
	answer := func(object any) { _ = json.NewEncoder(w).Encode(object) }
	switch {
	case strings.HasSuffix(r.URL.Path, "/services"):
		answer(&corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"},
			Items: []corev1.Service{*s.service}})
	case strings.HasSuffix(r.URL.Path, "/endpointslices") && r.URL.Query().Get("watch") != "":
		added, bookmark := s.slice.DeepCopy(), &discoveryv1.EndpointSlice{TypeMeta: s.slice.TypeMeta}
		bookmark.ResourceVersion, bookmark.Annotations = "1",
			map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		answer(map[string]any{"type": "ADDED", "object": added})
		answer(map[string]any{"type": "BOOKMARK", "object": bookmark})
		w.(http.Flusher).Flush()
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
	case strings.HasSuffix(r.URL.Path, "/endpointslices"):
		answer(&discoveryv1.EndpointSliceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []discoveryv1.EndpointSlice{*s.slice},
		})
	case strings.Contains(r.URL.Path, "/configmaps"):
		s.serveConfigMap(w, r, answer)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *shootAPI) serveConfigMap(w http.ResponseWriter, r *http.Request, answer func(any)) {
	body, _ := io.ReadAll(r.Body)
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch r.Method {
	case http.MethodPost:
		// The body may be in another format; there is one node.
		if s.configMaps["machine-x"] != nil {
			w.WriteHeader(http.StatusConflict)
			answer(apierrors.NewAlreadyExists(corev1.Resource("configmaps"), "machine-x").Status())
			return
		}
		name = "machine-x"
		s.configMaps[name] = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
	case http.MethodPatch:
		patch := &corev1.ConfigMap{}
		_ = json.Unmarshal(body, patch)
		for key, value := range patch.Data {
			s.configMaps[name].Data[key] = value
		}
	}
	answer(s.configMaps[name])
}

func (s *shootAPI) requestsOf(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked["Bearer "+token]
}

// ingressGateway leads everybody who asks for the kube-apiserver of the shoot to the address.
func ingressGateway(address string) int {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				buffered := bufio.NewReader(conn)
				request, err := http.ReadRequest(buffered)
				if err != nil || request.Header.Get(
					"X-Gardener-Destination") != "outbound|443||kube-apiserver.shoot--demo--workers.svc.cluster.local" {
					return
				}
				target, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer func() { _ = target.Close() }()
				_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
				go func() { _, _ = io.Copy(target, buffered); _ = target.Close() }()
				_, _ = io.Copy(conn, target)
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// tokenVolume is the volume that Kubernetes or Gardener mounts into pods for their service account.
func tokenVolume() (corev1.Volume, corev1.VolumeMount) {
	return corev1.Volume{Name: "kube-api-access-x",
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token",
				ExpirationSeconds: new(int64(3607))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
		}}}}, corev1.VolumeMount{Name: "kube-api-access-x", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
}

// grantTokens lets the client grant tokens that tell whose they are.
func grantTokens(client *fake.Clientset) {
	client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateActionImpl)
		if !ok || create.Subresource != "token" {
			return false, nil, nil
		}
		request := create.Object.(*authenticationv1.TokenRequest).DeepCopy()
		if request.Spec.BoundObjectRef == nil || request.Spec.BoundObjectRef.UID == "" {
			return true, nil, errors.New("a node may only have tokens that are bound to its pods")
		}
		request.Status = authenticationv1.TokenRequestStatus{Token: create.Name + "-token",
			ExpirationTimestamp: metav1.Now()}
		return true, request, nil
	})
}

var _ = Describe("Pods of which something runs", func() {
	var (
		ctx    context.Context
		node   *hollow.Node
		client *fake.Clientset
		pods   *hollow.Pods
		links  *interfaces
		api    *shootAPI

		servicePort, proxyPort int
		proxyTemplate          corev1.PodSpec
	)

	BeforeEach(func() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.Background())
		DeferCleanup(func() { cancel() })
		links = &interfaces{addrs: map[string][]string{}}
		node = &hollow.Node{Log: logr.Discard(), Name: "machine-x", IP: net.ParseIP("10.180.0.2"),
			Folder: GinkgoT().TempDir(), Links: links}

		servicePort, proxyPort = program.FreePort(), program.FreePort()
		api = &shootAPI{
			configMaps: map[string]*corev1.ConfigMap{}, asked: map[string]int{},
			service: &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
				Spec: corev1.ServiceSpec{ClusterIP: "127.0.0.1",
					Ports: []corev1.ServicePort{{Name: "https", Port: int32(servicePort)}}},
			},
			slice: &discoveryv1.EndpointSlice{
				TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", ResourceVersion: "1",
					Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
				Ports:     []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(proxyPort))}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.2"}}},
			},
		}
		server := httptest.NewTLSServer(api)
		DeferCleanup(server.Close)
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		kubeconfig := fmt.Sprintf(
			`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[`+
				`{"name":"x","context":{"cluster":"x","user":"x"}}],`+
				`"clusters":[{"name":"x","cluster":{"server":%q,"certificate-authority-data":%q}}],`+
				`"users":[{"name":"x",`+
				`"user":{"tokenFile":"/var/run/secrets/kubernetes.io/serviceaccount/token"}}]}`,
			server.URL, encode(ca))

		client = fake.NewClientset(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: incluster.Name, Name: "kube-root-ca.crt"},
				Data: map[string]string{"ca.crt": string(ca)}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy-config"},
				Data: map[string]string{
					"config.yaml": "clientConnection:\n  kubeconfig: /var/lib/kube-proxy-kubeconfig/kubeconfig\n",
				}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"},
				Data: map[string][]byte{"kubeconfig": []byte(kubeconfig)}},
			api.service,
		)
		grantTokens(client)
		pods = hollow.NewPods(ctx, node, client)

		// The apiserver-proxy as Gardener's component makes it, with addresses that a test may use.
		seed := fakeclient.NewClientBuilder().WithScheme(gardenerkubernetes.SeedScheme).Build()
		component := upstream.New(seed, "shoot--demo--workers", nil,
			upstream.Values{ProxySeedServerHost: "127.0.0.1", DNSLookupFamily: "V4_ONLY"})
		component.SetAdvertiseIPAddress("127.0.0.2")
		Expect(component.Deploy(ctx)).To(Succeed())
		objects, err := managedresources.GetObjects(ctx, seed, "shoot--demo--workers", "shoot-core-apiserver-proxy")
		Expect(err).NotTo(HaveOccurred())
		gatewayPort := ingressGateway(server.Listener.Addr().String())
		for _, object := range objects {
			switch o := object.(type) {
			case *corev1.ConfigMap:
				o.Data["envoy.yaml"] = strings.NewReplacer("port_value: 443", "port_value: "+strconv.Itoa(proxyPort),
					"port_value: 8443", "port_value: "+strconv.Itoa(gatewayPort)).Replace(o.Data["envoy.yaml"])
				Expect(client.Tracker().Add(o)).To(Succeed())
			case *appsv1.DaemonSet:
				proxyTemplate = o.Spec.Template.Spec
			}
		}
	})

	// add has the node run the pod.
	add := func(pod *corev1.Pod) {
		GinkgoHelper()
		Expect(client.Tracker().Add(pod)).To(Succeed())
		Expect(pods.Store.Add(pod)).To(Succeed())
		Expect(pods.Reconcile(ctx, pod.Namespace+"/"+pod.Name)).To(Succeed())
	}
	// status returns what was reported of the pod, after it was looked at again.
	status := func(namespace, name string) corev1.PodStatus {
		GinkgoHelper()
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Store.Update(pod)).To(Succeed())
		Expect(pods.Reconcile(ctx, namespace+"/"+name)).To(Succeed())
		pod, err = client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		return pod.Status
	}
	ready := func(status corev1.ConditionStatus, message string) gomegatypes.GomegaMatcher {
		return And(
			HaveField("Phase", corev1.PodRunning),
			HaveField("Conditions",
				ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", status),
					HaveField("Message", ContainSubstring(message))))),
		)
	}
	// proxyPod is a pod of the apiserver-proxy. Its probes ask at a port that is free.
	proxyPod := func(name string) *corev1.Pod {
		GinkgoHelper()
		node.Images = envoys()
		adminPort := program.FreePort()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID(name)},
			Spec: *proxyTemplate.DeepCopy()}
		volume := pod.Spec.Volumes[0].ConfigMap
		config, err := client.CoreV1().ConfigMaps("kube-system").Get(ctx, volume.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		own := config.DeepCopy()
		own.Name = name
		own.Data["envoy.yaml"] = strings.ReplaceAll(own.Data["envoy.yaml"], "16910", strconv.Itoa(adminPort))
		Expect(client.Tracker().Add(own)).To(Succeed())
		volume.Name = name
		for i := range pod.Spec.Containers {
			if probe := pod.Spec.Containers[i].ReadinessProbe; probe != nil {
				// The machine that tests does not have the node's address.
				probe.HTTPGet.Host, probe.HTTPGet.Port = "127.0.0.1", intstr.FromInt32(int32(adminPort))
			}
		}
		return pod
	}
	kubeProxyPod := func() *corev1.Pod {
		volume, mount := tokenVolume()
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy-x",
			UID: "kube-proxy-x"}, Spec: corev1.PodSpec{
			HostNetwork: true, ServiceAccountName: "kube-proxy",
			Containers: []corev1.Container{{
				Name: "kube-proxy", Command: []string{"/usr/local/bin/kube-proxy",
					"--config=/var/lib/kube-proxy-config/config.yaml"},
				VolumeMounts: []corev1.VolumeMount{mount,
					{Name: "kubeconfig", MountPath: "/var/lib/kube-proxy-kubeconfig"},
					{Name: "config", MountPath: "/var/lib/kube-proxy-config"}},
			}},
			Volumes: []corev1.Volume{
				volume,
				{Name: "kubeconfig",
					VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "kube-proxy"}}},
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-proxy-config"},
				}}},
			},
		}}
	}
	clientPod := func() *corev1.Pod {
		volume, mount := tokenVolume()
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: incluster.Name, Name: "client-x", UID: "client-x"},
			Spec: corev1.PodSpec{
				ServiceAccountName: incluster.Name,
				Containers: []corev1.Container{
					{Name: "client", Image: incluster.Image, VolumeMounts: []corev1.VolumeMount{mount}},
				},
				Volumes: []corev1.Volume{volume}, HostNetwork: true,
			},
		}
	}
	counts := func() []incluster.Counts {
		GinkgoHelper()
		recorder := httptest.NewRecorder()
		node.CountsHandler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, hollow.CountsPath, nil))
		var out []incluster.Counts
		Expect(json.Unmarshal(recorder.Body.Bytes(), &out)).To(Succeed())
		return out
	}

	It("should let a client inside of the shoot go by the Service's address, kube-proxy, the apiserver-proxy and "+
		"the gateway", func() {
		add(clientPod())
		add(kubeProxyPod())
		add(proxyPod("apiserver-proxy-a"))
		Eventually(func() corev1.PodStatus { return status("kube-system", "apiserver-proxy-a") }).
			Should(ready(corev1.ConditionTrue, ""))
		Eventually(func() corev1.PodStatus { return status("kube-system", "kube-proxy-x") }).
			Should(ready(corev1.ConditionTrue, ""))
		Expect(links.on("apiserver-proxy")).To(Equal([]string{"127.0.0.2"}))
		Expect(links.on("hollow-services")).To(Equal([]string{"127.0.0.1"}))
		Eventually(counts).Should(HaveExactElements(And(
			HaveField("Node", "machine-x"), HaveField("Pod", "client-x"), HaveField("Writes", BeNumerically(">", 1)),
			HaveField("Reads", BeNumerically(">", 1)), HaveField("Failed", 0),
		)))
		Expect(api.requestsOf("kube-proxy-token")).To(BeNumerically(">", 0))
		Expect(api.requestsOf(incluster.Name + "-token")).To(BeNumerically(">", 3))

		// A second one takes over, as a twin does; only what the first one had in hand may fail.
		add(proxyPod("apiserver-proxy-b"))
		Eventually(func() corev1.PodStatus { return status("kube-system", "apiserver-proxy-b") }).
			Should(ready(corev1.ConditionTrue, ""))
		pods.End("apiserver-proxy-a")
		before := counts()[0].Requests()
		Eventually(func() int { return counts()[0].Requests() }).Should(BeNumerically(">", before+6))
		after := counts()[0]
		Expect(after.Failed).To(Equal(after.CutByProxy), "%v", after.Errors)

		// kube-proxy's rules outlive it.
		pods.End("kube-proxy-x")
		before = counts()[0].Requests()
		Eventually(func() int { return counts()[0].Requests() }).Should(BeNumerically(">", before+6))
		Expect(counts()[0].Failed).To(Equal(after.Failed))

		// Without any apiserver-proxy there is no way any more, and that shows.
		pods.End("apiserver-proxy-b")
		Eventually(func() int { return counts()[0].Failed - counts()[0].CutByProxy }).Should(BeNumerically(">", 1))
		pods.End("client-x")
		Expect(counts()).To(HaveLen(1), "what was counted is not lost with the pod")
	})

	It("should call an apiserver-proxy ready when it listens, and not before", func() {
		taken, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.2", strconv.Itoa(proxyPort)))
		Expect(err).NotTo(HaveOccurred())
		add(proxyPod("apiserver-proxy-a"))
		Eventually(func() corev1.PodStatus { return status("kube-system", "apiserver-proxy-a") }).
			Should(ready(corev1.ConditionFalse, "envoy has ended"))
		Expect(pods.Changed).To(Receive(Equal("kube-system/apiserver-proxy-a")))
		Expect(taken.Close()).To(Succeed())
		Eventually(func() corev1.PodStatus { return status("kube-system", "apiserver-proxy-a") }).
			Should(ready(corev1.ConditionTrue, ""))
	})

	It("should not call an apiserver-proxy ready whose probe asks elsewhere", func() {
		pod := proxyPod("apiserver-proxy-a")
		for i := range pod.Spec.Containers {
			if probe := pod.Spec.Containers[i].ReadinessProbe; probe != nil {
				probe.HTTPGet.Port = intstr.FromInt32(1)
			}
		}
		add(pod)
		Eventually(func() corev1.PodStatus { return status("kube-system", "apiserver-proxy-a") }).
			Should(ready(corev1.ConditionFalse, "readiness probe failed"))
	})

	It("should not call a kube-proxy ready without its kubeconfig", func() {
		Expect(client.CoreV1().Secrets("kube-system").Delete(ctx, "kube-proxy", metav1.DeleteOptions{})).To(Succeed())
		add(kubeProxyPod())
		Eventually(func() corev1.PodStatus { return status("kube-system", "kube-proxy-x") }).
			Should(ready(corev1.ConditionFalse, "failed to get Secret kube-system/kube-proxy"))
	})

	metricsPod := func(port int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "metrics-server-x",
			UID: "metrics-server-x"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "metrics-server",
				Command: []string{
					"/metrics-server", "--cert-dir=/home/certdir", "--secure-port=" + strconv.Itoa(port),
					"--tls-cert-file=/srv/metrics-server/tls/tls.crt",
					"--tls-private-key-file=/srv/metrics-server/tls/tls.key",
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "metrics-server", MountPath: "/srv/metrics-server/tls"}},
			}},
			Volumes: []corev1.Volume{
				{Name: "metrics-server",
					VolumeSource: corev1.VolumeSource{
						Secret: &corev1.SecretVolumeSource{SecretName: "metrics-server"},
					}},
			},
		}}
	}

	It("should let metrics-server answer at the address of its pod, with the certificate of the pod", func() {
		Expect(client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine-x"},
			Spec: corev1.NodeSpec{PodCIDR: "127.0.3.0/24"}})).To(Succeed())
		port := program.FreePort()
		add(metricsPod(port))
		Eventually(func() corev1.PodStatus { return status("kube-system", "metrics-server-x") }).
			Should(ready(corev1.ConditionFalse, "failed to get Secret kube-system/metrics-server"))

		certificate, key, err := certutil.GenerateSelfSignedCertKey("metrics-server.kube-system.svc", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(client.Tracker().
			Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "metrics-server"},
				Data: map[string][]byte{"tls.crt": certificate, "tls.key": key}})).To(Succeed())
		Eventually(func() corev1.PodStatus { return status("kube-system", "metrics-server-x") }).
			Should(And(ready(corev1.ConditionTrue, ""), HaveField("PodIP", "127.0.3.2")))
		Expect(links.on("hollow-pods")).To(Equal([]string{"127.0.3.2"}))

		config := &rest.Config{
			Host:            "https://" + net.JoinHostPort("127.0.3.2", strconv.Itoa(port)),
			TLSClientConfig: rest.TLSClientConfig{CAData: certificate, ServerName: "metrics-server.kube-system.svc"},
		}
		discovered, err := discovery.NewDiscoveryClientForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		_, resources, err := discovered.ServerGroupsAndResources()
		Expect(err).NotTo(HaveOccurred())
		Expect(resources).To(
			HaveExactElements(And(HaveField("GroupVersion", "metrics.k8s.io/v1beta1"),
				HaveField("APIResources", HaveLen(2)))))
		lists, err := dynamic.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		pods0, err := lists.Resource(schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1",
			Resource: "pods"}).Namespace("kube-system").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods0.GetKind()).To(Equal("PodMetricsList"))
		Expect(pods0.Items).To(BeEmpty())

		pods.End("metrics-server-x")
		Eventually(func() error {
			_, err := discovered.ServerGroups()
			return err
		}).Should(MatchError(ContainSubstring("connection refused")))
	})

	It("should still report all other pods as ready at once", func() {
		add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "other", UID: "other"},
			Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "x"}}}})
		Expect(status("kube-system", "other")).To(ready(corev1.ConditionTrue, ""))
	})
})

var _ = DescribeTable(
	"A request that failed was disturbed by a proxy that ended", func(from, to time.Duration, expected bool) {
		node, at := &hollow.Node{}, time.Now()
		node.ProxyEnds(at.Add(-time.Hour))(at.Add(-time.Hour))
		node.ProxyEnds(at)(at.Add(250 * time.Millisecond))
		Expect(node.Disturbed(at.Add(from), at.Add(to))).To(Equal(expected))
		Expect(node.DisturbedElsewhere(at.Add(from), at.Add(to))).To(BeFalse(), "its connection led to another one")
		Expect(node.CutByProxy(incluster.Lost{Begin: at.Add(from), End: at.Add(to), Local: "127.0.0.1:1"})).
			To(BeFalse(), "nobody knows where its connection led to")
	},
	Entry("while it was on its way", -time.Second, 10*time.Millisecond, true),
	Entry("not if it was over before", -2*time.Second, -time.Second, false),
	Entry("if it began while the proxy was about to end", 240*time.Millisecond, 251*time.Millisecond, true),
	Entry("not if it began afterwards", 251*time.Millisecond, time.Second, false),
	Entry("not if it continued for long", -time.Second, 9*time.Second, false),
)

var _ = DescribeTable("A request that failed may be disturbed by a proxy that has not ended yet",
	func(from, to time.Duration, expected bool) {
		node, at := &hollow.Node{}, time.Now()
		node.ProxyEnds(at)
		Expect(node.Disturbed(at.Add(from), at.Add(to))).To(Equal(expected))
	},
	Entry("while it was on its way", -time.Second, 10*time.Millisecond, true),
	Entry("if it began after the proxy began to end", 10*time.Millisecond, 20*time.Millisecond, true),
	Entry("not if it was over before", -2*time.Second, -time.Second, false),
)

var _ = Describe("SetReady", func() {
	It("should change pod and containers, and report whether it did", func() {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
		status := hollow.RunningStatus(pod, "10.180.0.2", "10.181.0.5", metav1.Now())
		Expect(hollow.SetReady(&status, nil, metav1.Now())).To(BeFalse())
		Expect(hollow.SetReady(&status, errors.New("why"), metav1.Now())).To(BeTrue())
		Expect(status.Conditions).To(ContainElements(
			And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionFalse),
				HaveField("Message", "why")),
			And(HaveField("Type", corev1.PodInitialized), HaveField("Status", corev1.ConditionTrue)),
		))
		Expect(status.ContainerStatuses[0].Ready).To(BeFalse())
		Expect(hollow.SetReady(&status, nil, metav1.Now())).To(BeTrue())
		Expect(status.Conditions).
			To(ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue),
				HaveField("Message", ""), HaveField("Reason", ""))))
	})
})

var _ = Describe("Files of pods", func() {
	var (
		ctx    = context.Background()
		client *fake.Clientset
		pod    *corev1.Pod
	)

	BeforeEach(func() {
		client = fake.NewClientset(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "kube-root-ca.crt"},
				Data: map[string]string{"ca.crt": "the CA"}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "secret"},
				Data: map[string][]byte{"key": []byte("a secret")}},
		)
		grantTokens(client)
		volume, mount := tokenVolume()
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"}, Spec: corev1.PodSpec{
			ServiceAccountName: "account",
			Containers: []corev1.Container{
				{Name: "c", VolumeMounts: []corev1.VolumeMount{mount, {Name: "s", MountPath: "/s"}}},
			},
			Volumes: []corev1.Volume{volume,
				{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret",
					Items: []corev1.KeyToPath{{Key: "key", Path: "file"}}}}}},
		}}
	})

	It("should be read where they come from", func() {
		Expect(hollow.ReadFile(ctx, client, pod, "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")).
			To(BeEquivalentTo("the CA"))
		Expect(hollow.ReadFile(ctx, client, pod, "/s/file")).To(BeEquivalentTo("a secret"))
	})

	DescribeTable("should be missed by name", func(file, message string) {
		_, err := hollow.ReadFile(ctx, client, pod, file)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("no mount", "/elsewhere/file", "container c mounts nothing at /elsewhere/file"),
		Entry("no such file", "/s/key", "file does not exist"),
		Entry("no such file in any source", "/var/run/secrets/kubernetes.io/serviceaccount/other",
			"volume kube-api-access-x has no file other"),
	)

	It("should have a token that is bound to the pod, for nobody else to read", func() {
		file := filepath.Join(GinkgoT().TempDir(), "pod", "token")
		keep, cancel := context.WithCancel(ctx)
		defer cancel()
		Expect(hollow.KeepToken(keep, client,
			hollow.MountedToken{Pod: pod, At: "/var/run/secrets/kubernetes.io/serviceaccount/token"}, file)).
			To(Succeed())
		Expect(os.ReadFile(file)).To(BeEquivalentTo("account-token"))
		info, err := os.Stat(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
		Expect(hollow.KeepToken(keep, client, hollow.MountedToken{Pod: pod, At: "/s/file"}, file)).
			To(MatchError(ContainSubstring("volume s has no token at file")))
	})
})

// pod0 is the interface of a machine's pod.
type pod0 struct {
	names   []string
	found   []string
	refuse  error
	replace []string
}

func (p *pod0) LinkByName(name string) (netlink.Link, error) {
	for _, known := range p.names {
		if known == name {
			return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name}}, nil
		}
	}
	return nil, netlink.LinkNotFoundError{}
}

func (p *pod0) AddrList(netlink.Link, int) ([]netlink.Addr, error) {
	var out []netlink.Addr
	for _, text := range p.found {
		address, err := netlink.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		out = append(out, *address)
	}
	return out, nil
}

func (p *pod0) AddrReplace(_ netlink.Link, address *netlink.Addr) error {
	p.replace = append(p.replace, address.IPNet.String())
	return p.refuse
}

// routes are those of a machine.
type routes struct {
	pod0
	replaced []string
}

func (r *routes) RouteReplace(route *netlink.Route) error {
	r.replaced = append(r.replaced, fmt.Sprintf("%s scope %s", route.Dst, route.Scope))
	return r.refuse
}

var _ = Describe("RouteToPods", func() {
	pods := netip.MustParsePrefix("10.181.0.0/16")

	It("should be one of the bridge", func() {
		kernel := &routes{pod0: pod0{names: []string{"eth0"}}}
		Expect(hollow.RouteToPods(kernel, "eth0", pods)).To(Succeed())
		Expect(kernel.replaced).To(Equal([]string{"10.181.0.0/16 scope link"}))
	})

	It("should say what went wrong", func() {
		Expect(hollow.RouteToPods(&routes{}, "eth0", pods)).
			To(MatchError(ContainSubstring("failed to find interface eth0")))
		kernel := &routes{pod0: pod0{names: []string{"eth0"}, refuse: errors.New("not permitted")}}
		Expect(hollow.RouteToPods(kernel, "eth0", pods)).
			To(MatchError("failed to add a route to pods, 10.181.0.0/16: not permitted"))
	})
})

var _ = Describe("OwnAddress", func() {
	nodes := netip.MustParsePrefix("10.180.0.0/16")

	It("should be added beside the pod's", func() {
		kernel := &pod0{names: []string{"eth0"}, found: []string{"10.241.3.7/24"}}
		own, err := hollow.OwnAddress(kernel, "eth0", nodes)
		Expect(err).NotTo(HaveOccurred())
		Expect(own.String()).To(Equal("10.180.3.7"))
		Expect(kernel.replace).To(Equal([]string{"10.180.3.7/16"}))
	})

	It("should be the same after a restart, when it is there already", func() {
		kernel := &pod0{names: []string{"eth0"}, found: []string{"10.180.3.7/16", "10.241.3.7/24"}}
		own, err := hollow.OwnAddress(kernel, "eth0", nodes)
		Expect(err).NotTo(HaveOccurred())
		Expect(own.String()).To(Equal("10.180.3.7"))
	})

	DescribeTable("should say why there is none", func(kernel *pod0, message string) {
		_, err := hollow.OwnAddress(kernel, "eth0", nodes)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("no interface", &pod0{}, "failed to find interface eth0"),
		Entry("no address", &pod0{names: []string{"eth0"}}, "has no address of its pod"),
		Entry("no address of a pod", &pod0{names: []string{"eth0"}, found: []string{"10.180.3.7/16"}},
			"has no address of its pod"),
		Entry("a kernel that refuses", &pod0{names: []string{"eth0"}, found: []string{"10.241.3.7/24"},
			refuse: errors.New("not permitted")}, "failed to add address 10.180.3.7 to eth0: not permitted"),
	)
})

func encode(content []byte) string {
	encoded, _ := json.Marshal(content)
	return strings.Trim(string(encoded), `"`)
}

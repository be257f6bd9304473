// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/livecpm/livecpm/test/standins/machine/device"
)

const (
	// podDevice is the interface that has the addresses of pods that listen. A real one would be in the pod's own
	// network namespace.
	podDevice = "hollow-pods"
	// The flags of metrics-server that matter here.
	flagCertificate = "--tls-cert-file="
	flagKey         = "--tls-private-key-file="
	flagSecurePort  = "--secure-port="
)

// metricsVersion is the API that metrics-server serves.
var metricsVersion = schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}

// metricsServer is what runs of a pod of metrics-server: its API, at the pod's address and with its certificate, but
// without any metrics. It has to answer: as long as an APIService is unavailable, kube-controller-manager cannot know
// whether a Namespace is empty, and none of the shoot ever goes. The kube-apiserver comes to it through the VPN. The
// pod is known by its program.
type metricsServer struct {
	*readiness
	log   logr.Logger
	node  *Node
	files mounted
	ip    string

	certificate, key, port string
}

// newMetricsServer returns the metrics-server if the pod, which has an address already, is one.
func newMetricsServer(host host, pod *corev1.Pod) (*metricsServer, bool) {
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if len(container.Command) == 0 || path.Base(container.Command[0]) != "metrics-server" {
			continue
		}
		server := &metricsServer{
			readiness: newReadiness(host.changed), log: host.log, node: host.node, ip: pod.Status.PodIP,
			files: mounted{client: host.client, pod: pod, container: container},
		}
		for _, arg := range container.Command[1:] {
			for flag, value := range map[string]*string{flagCertificate: &server.certificate, flagKey: &server.key,
				flagSecurePort: &server.port} {
				if given, is := strings.CutPrefix(arg, flag); is {
					*value = given
				}
			}
		}
		return server, server.certificate != "" && server.key != "" && server.port != ""
	}
	return nil, false
}

// run serves until the context ends. The address stays on the interface: the node gives it to no other pod for as long
// as it has more.
func (m *metricsServer) run(ctx context.Context) {
	keepTrying(ctx, retryInterval, m.serve, func(err error) {
		m.set(err)
		m.log.Info("metrics-server does not serve", "reason", err.Error())
	})
	m.log.Info("metrics-server ended")
}

func (m *metricsServer) serve(ctx context.Context) error {
	certificate, err := m.files.read(ctx, m.certificate)
	if err != nil {
		return err
	}
	key, err := m.files.read(ctx, m.key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("failed to read the certificate of metrics-server: %w", err)
	}
	address, err := netip.ParseAddr(m.ip)
	if err != nil {
		return fmt.Errorf("failed to read the address of the pod: %w", err)
	}
	if err := device.Ensure(m.node.Links, podDevice, address); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(m.ip, m.port))
	if err != nil {
		return fmt.Errorf("failed to listen at the address of the pod: %w", err)
	}
	server := &http.Server{
		// It takes everyone: there is nothing to be protected.
		Handler: metricsHandler(), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	m.log.Info("metrics-server serves", "address", listener.Addr().String())
	m.set(nil)
	return server.ServeTLS(listener, "", "")
}

// metricsHandler answers discovery, and lists of metrics with nothing in them.
func metricsHandler() http.Handler {
	version := metav1.GroupVersionForDiscovery{GroupVersion: metricsVersion.String(), Version: metricsVersion.Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"},
		Name:     metricsVersion.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	resource := func(name, kind string, namespaced bool) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list"}}
	}
	list := func(kind string) any {
		return &metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: metricsVersion.String(), Kind: kind},
			Items: []runtime.RawExtension{}}
	}
	root := "/apis/" + metricsVersion.Group
	mux := http.NewServeMux()
	for path, answer := range map[string]any{
		"/apis": &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"},
			Groups: []metav1.APIGroup{group}},
		root: &group,
		root + "/" + metricsVersion.Version: &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: metricsVersion.String(),
			APIResources: []metav1.APIResource{resource("nodes", "NodeMetrics", false),
				resource("pods", "PodMetrics", true)},
		},
		root + "/" + metricsVersion.Version + "/nodes":                       list("NodeMetricsList"),
		root + "/" + metricsVersion.Version + "/pods":                        list("PodMetricsList"),
		root + "/" + metricsVersion.Version + "/namespaces/{namespace}/pods": list("PodMetricsList"),
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", runtime.ContentTypeJSON)
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	return mux
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/livecpm/livecpm/test/standins/machine/incluster"
)

const (
	// CountsPort is the port of the machine at which what its in-cluster clients have counted can be read.
	CountsPort = 9480
	// CountsPath is the path there.
	CountsPath = "/in-cluster"
	// tokenFile and caFile are where pods find them.
	tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token" // #nosec G101 -- It is a path.
	caFile    = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
)

// clients are the in-cluster clients of the node. Those whose pod is gone stay: what they have counted must not be
// lost.
type clients struct {
	mu  sync.Mutex
	all []*incluster.Client
}

func (c *clients) add(client *incluster.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, client)
}

func (c *clients) counts() []incluster.Counts {
	c.mu.Lock()
	all := slices.Clone(c.all)
	c.mu.Unlock()
	out := []incluster.Counts{}
	for _, client := range all {
		if counts, begun := client.Counts(); begun {
			out = append(out, counts)
		}
	}
	return out
}

// serveCounts lets others read the counts. They come by the machine's own network, not by what is measured.
func (n *Node) serveCounts(ctx context.Context) error {
	server := &http.Server{Addr: net.JoinHostPort("", strconv.Itoa(CountsPort)), Handler: n.countsHandler(),
		ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to serve counts: %w", err)
	}
	return ctx.Err()
}

func (n *Node) countsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+CountsPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(n.clients.counts())
	})
	return mux
}

// inClusterClient is what runs of a pod of the in-cluster client.
type inClusterClient struct {
	log    logr.Logger
	node   *Node
	client kubernetes.Interface
	pod    *corev1.Pod
}

// newInClusterClient returns the client if the pod is one.
func newInClusterClient(
	log logr.Logger, node *Node, client kubernetes.Interface, pod *corev1.Pod,
) (*inClusterClient, bool) {
	return &inClusterClient{log: log, node: node, client: client, pod: pod}, incluster.Is(pod)
}

// unready tells nothing: the pods have no probe. Whether they get answers is in their counts.
func (i *inClusterClient) unready() error { return nil }

func (i *inClusterClient) run(ctx context.Context) {
	defer i.node.removePodFolder(i.pod)
	keepTrying(ctx, retryInterval, i.ask, func(err error) {
		i.log.Info("The in-cluster client cannot begin", "reason", err.Error())
	})
	i.log.Info("In-cluster client ended")
}

func (i *inClusterClient) ask(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config, err := i.restConfig(ctx)
	if err != nil {
		return err
	}
	client := &incluster.Client{
		Log: i.log, Config: config, Namespace: i.pod.Namespace, Node: i.node.Name, Pod: string(i.pod.UID),
		Interval: incluster.DefaultInterval, Cut: i.node.cutByProxy,
	}
	i.node.clients.add(client)
	return client.Run(ctx)
}

// restConfig is what rest.InClusterConfig returns in a pod: the Service's address, which the kubelet puts into the
// environment of all containers, and token and CA of the pod's service account.
func (i *inClusterClient) restConfig(ctx context.Context) (*rest.Config, error) {
	service, err := i.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to get the Service default/kubernetes: %w", err)
	}
	if len(service.Spec.Ports) == 0 {
		return nil, errors.New("the Service default/kubernetes has no port")
	}
	files := mounted{client: i.client, pod: i.pod, container: &i.pod.Spec.Containers[0]}
	ca, err := files.read(ctx, caFile)
	if err != nil {
		return nil, err
	}
	projection, err := files.token(tokenFile)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(i.node.podFolder(i.pod), "token")
	if err := files.keepToken(ctx, i.log, projection, file); err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: "https://" +
			net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(service.Spec.Ports[0].Port))),
		BearerTokenFile: file,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}, nil
}

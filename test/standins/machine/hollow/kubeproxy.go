// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/test/standins/machine/device"
	"github.com/livecpm/livecpm/test/standins/machine/serviceproxy"
)

const (
	// serviceDevice is the interface that has the Service's address. The real kube-proxy needs none in the mode that
	// Gardener chooses.
	serviceDevice = "hollow-services"
	flagConfig    = "--config="
)

// rules are in place of what kube-proxy has written into the kernel: they outlive the pod that has written them.
type rules struct {
	mu        sync.Mutex
	forwarder *serviceproxy.Forwarder
	address   netip.AddrPort
}

// ensure has the Service's address lead to a forwarder, which is returned, for as long as the node lives.
func (r *rules) ensure(ctx context.Context, node *Node, address netip.AddrPort) (*serviceproxy.Forwarder, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forwarder != nil && r.address == address {
		return r.forwarder, nil
	}
	if r.forwarder != nil {
		return nil, fmt.Errorf("the Service has another address than before: %s instead of %s", address, r.address)
	}
	if err := device.Ensure(node.Links, serviceDevice, address.Addr()); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address.String())
	if err != nil {
		return nil, fmt.Errorf("failed to listen at the address of the Service: %w", err)
	}
	forwarder := &serviceproxy.Forwarder{Log: node.Log}
	r.forwarder, r.address = forwarder, address
	go func() {
		if err := forwarder.Serve(ctx, listener); err != nil && ctx.Err() == nil {
			node.Log.Error(err, "Nothing serves the Service's address any more", "address", address.String())
			r.mu.Lock()
			r.forwarder = nil
			r.mu.Unlock()
		}
	}()
	return forwarder, nil
}

// ledTo returns where the connection of the client with the address was led to; empty if that is not known.
func (r *rules) ledTo(client string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forwarder == nil {
		return ""
	}
	return r.forwarder.LedTo(client)
}

// kubeProxy is what runs of a pod of kube-proxy: it follows the endpoints of the Service default/kubernetes with the
// pod's own kubeconfig and service account (see package serviceproxy). It is known by its program.
type kubeProxy struct {
	*readiness
	log        logr.Logger
	node       *Node
	files      mounted
	configFile string
}

// newKubeProxy returns the kube-proxy if the pod is one.
func newKubeProxy(host host, pod *corev1.Pod) (*kubeProxy, bool) {
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if len(container.Command) == 0 || path.Base(container.Command[0]) != "kube-proxy" {
			continue
		}
		for _, arg := range container.Command[1:] {
			if file, is := strings.CutPrefix(arg, flagConfig); is {
				return &kubeProxy{
					readiness: newReadiness(host.changed), log: host.log, node: host.node, configFile: file,
					files: mounted{client: host.client, pod: pod, container: container},
				}, true
			}
		}
	}
	return nil, false
}

func (k *kubeProxy) run(ctx context.Context) {
	defer k.node.removePodFolder(k.files.pod)
	keepTrying(ctx, retryInterval, k.follow, func(err error) {
		k.set(err)
		k.log.Info("kube-proxy does not follow", "reason", err.Error())
	})
	k.log.Info("kube-proxy ended, what it has set up stays")
}

func (k *kubeProxy) follow(ctx context.Context) error {
	// What is started for this attempt ends with it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config, err := k.restConfig(ctx)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to create client: %w", err)
	}
	address, err := serviceproxy.Address(ctx, client)
	if err != nil {
		return err
	}
	forwarder, err := k.node.rules.ensure(k.node.lives, k.node, address)
	if err != nil {
		return err
	}
	return serviceproxy.Follow(ctx, client, func(endpoints []string) {
		forwarder.Set(endpoints)
		k.set(nil)
	})
}

// restConfig is how the pod talks to the kube-apiserver: by the kubeconfig that its configuration names.
func (k *kubeProxy) restConfig(ctx context.Context) (*rest.Config, error) {
	content, err := k.files.read(ctx, k.configFile)
	if err != nil {
		return nil, err
	}
	configuration := struct {
		ClientConnection struct {
			Kubeconfig string `json:"kubeconfig"`
		} `json:"clientConnection"`
	}{}
	if err := yaml.Unmarshal(content, &configuration); err != nil {
		return nil, fmt.Errorf("failed to decode the configuration of kube-proxy: %w", err)
	}
	if content, err = k.files.read(ctx, configuration.ClientConnection.Kubeconfig); err != nil {
		return nil, err
	}
	kubeconfig, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("failed to decode the kubeconfig of kube-proxy: %w", err)
	}
	for _, user := range kubeconfig.AuthInfos {
		if user.TokenFile == "" {
			continue
		}
		projection, err := k.files.token(user.TokenFile)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(k.node.podFolder(k.files.pod), "token")
		if err := k.files.keepToken(ctx, k.log, projection, file); err != nil {
			return nil, err
		}
		user.TokenFile = file
	}
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig of kube-proxy: %w", err)
	}
	config.QPS = -1
	return config, nil
}

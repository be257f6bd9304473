// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/livecpm/livecpm/test/standins/vpn/tunnel"
)

// The variables by which Gardener configures the VPN client, and the name of its server's certificate.
const (
	envEndpoint    = "ENDPOINT"
	envPort        = "OPENVPN_PORT"
	envHeader      = "REVERSED_VPN_HEADER_KEY"
	envDestination = "REVERSED_VPN_HEADER"
	serverName     = "vpn-seed-server"
	// reconnectInterval is how long the client waits after its tunnel has ended.
	reconnectInterval = time.Second
)

// vpnClient is what runs of a pod of the VPN client. It is known by its environment, so that it does not matter how the pod is called
// or who has made it.
type vpnClient struct {
	log    logr.Logger
	client kubernetes.Interface
	pod    *corev1.Pod
	env    map[string]string
}

// newVPNClient returns the client if the pod is one.
func newVPNClient(log logr.Logger, client kubernetes.Interface, pod *corev1.Pod) (*vpnClient, bool) {
	for _, container := range pod.Spec.Containers {
		env := map[string]string{}
		for _, variable := range container.Env {
			env[variable.Name] = variable.Value
		}
		if env[envEndpoint] != "" && env[envPort] != "" && env[envHeader] != "" && env[envDestination] != "" {
			return &vpnClient{log: log.WithValues("pod", pod.Namespace+"/"+pod.Name), client: client, pod: pod, env: env}, true
		}
	}
	return nil, false
}

// run keeps the tunnel until the context ends.
func (v *vpnClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := v.connect(ctx); ctx.Err() == nil {
			v.log.Info("No tunnel", "endpoint", v.env[envEndpoint], "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnectInterval):
		}
	}
	v.log.Info("VPN client ended")
}

func (v *vpnClient) connect(ctx context.Context) error {
	files, err := v.certificates(ctx)
	if err != nil {
		return err
	}
	config, err := tunnel.TLSConfig(files["ca.crt"], files["tls.crt"], files["tls.key"])
	if err != nil {
		return err
	}
	config.ServerName = serverName
	return (&tunnel.Client{
		Gateway: net.JoinHostPort(v.env[envEndpoint], v.env[envPort]),
		Header:  v.env[envHeader], Destination: v.env[envDestination],
		TLS:  config,
		Dial: (&net.Dialer{}).DialContext,
		Connected: func() {
			v.log.Info("Tunnel stands", "endpoint", v.env[envEndpoint], "destination", v.env[envDestination])
		},
	}).Run(ctx)
}

// certificates reads what is mounted into the pod: a projected volume with all three files.
func (v *vpnClient) certificates(ctx context.Context) (map[string][]byte, error) {
	for _, volume := range v.pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		files := map[string][]byte{}
		for _, source := range volume.Projected.Sources {
			if source.Secret == nil {
				continue
			}
			// The kubelet may read the Secrets of its pods.
			secret, err := v.client.CoreV1().Secrets(v.pod.Namespace).Get(ctx, source.Secret.Name, metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("failed to get Secret %s of the VPN client: %w", source.Secret.Name, err)
			}
			for _, item := range source.Secret.Items {
				files[item.Path] = secret.Data[item.Key]
			}
		}
		if len(files["ca.crt"]) > 0 && len(files["tls.crt"]) > 0 && len(files["tls.key"]) > 0 {
			return files, nil
		}
	}
	var names []string
	for _, volume := range v.pod.Spec.Volumes {
		names = append(names, volume.Name)
	}
	return nil, fmt.Errorf("none of the volumes (%s) has ca.crt, tls.crt and tls.key", strings.Join(names, ", "))
}

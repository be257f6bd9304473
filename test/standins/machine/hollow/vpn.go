// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strings"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
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

// vpnClient is what runs of a pod of the VPN client. It is known by its environment, so that it does not matter how the
// pod is called or who has made it.
type vpnClient struct {
	log   logr.Logger
	files mounted
	env   map[string]string
}

// newVPNClient returns the client if the pod is one.
func newVPNClient(log logr.Logger, client kubernetes.Interface, pod *corev1.Pod) (*vpnClient, bool) {
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		env := map[string]string{}
		for _, variable := range container.Env {
			env[variable.Name] = variable.Value
		}
		if env[envEndpoint] != "" && env[envPort] != "" && env[envHeader] != "" && env[envDestination] != "" {
			return &vpnClient{log: log, files: mounted{client: client, pod: pod, container: container}, env: env}, true
		}
	}
	return nil, false
}

// run keeps the tunnel until the context ends.
func (v *vpnClient) run(ctx context.Context) {
	keepTrying(ctx, reconnectInterval, v.connect, func(err error) {
		v.log.Info("No tunnel", "endpoint", v.env[envEndpoint], "reason", err.Error())
	})
	v.log.Info("VPN client ended")
}

func (v *vpnClient) connect(ctx context.Context) error {
	files, err := v.certificates(ctx)
	if err != nil {
		return err
	}
	config, err := tunnel.TLSConfig(files[secretsutils.DataKeyCertificateCA], files[secretsutils.DataKeyCertificate],
		files[secretsutils.DataKeyPrivateKey])
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
			v.log.Info("The tunnel is established", "endpoint", v.env[envEndpoint],
				"destination", v.env[envDestination])
		},
	}).Run(ctx)
}

// certificates reads what is mounted into the pod: one of the volumes has all three files.
func (v *vpnClient) certificates(ctx context.Context) (map[string][]byte, error) {
	names := []string{secretsutils.DataKeyCertificateCA, secretsutils.DataKeyCertificate,
		secretsutils.DataKeyPrivateKey}
	var searched []string
	for _, mount := range v.files.container.VolumeMounts {
		if mount.SubPath != "" {
			continue
		}
		searched = append(searched, mount.Name)
		files := map[string][]byte{}
		for _, name := range names {
			content, err := v.files.read(ctx, path.Join(mount.MountPath, name))
			if errors.Is(err, os.ErrNotExist) {
				break
			}
			if err != nil {
				return nil, err
			}
			files[name] = content
		}
		if len(files) == len(names) {
			return files, nil
		}
	}
	return nil, fmt.Errorf("none of the volumes (%s) has %s", strings.Join(searched, ", "), strings.Join(names, ", "))
}

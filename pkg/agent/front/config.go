// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"fmt"
	"time"

	etcdconstants "github.com/gardener/gardener/pkg/component/etcd/etcd/constants"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/etcd/front/config"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// waitForOnly is how long a request waits while the only member restarts with the ordinary specification. That takes 15
// to 30 s, and a kube-apiserver gives its requests a minute.
const waitForOnly = 45 * time.Second

// configYAML returns the configuration. Both pods have the same one.
func (c *component) configYAML(secrets secretNames) (string, error) {
	out := config.Config{
		Etcd: c.etcdRole,
		Port: naming.PortClient,
		TLS: config.TLS{
			CAFile:         mountPath + "/ca/" + secrets.caKey,
			ServerCertFile: mountPath + "/server/" + corev1.TLSCertKey,
			ServerKeyFile:  mountPath + "/server/" + corev1.TLSPrivateKeyKey,
			ClientCertFile: mountPath + "/client/" + corev1.TLSCertKey,
			ClientKeyFile:  mountPath + "/client/" + corev1.TLSPrivateKeyKey,
		},
		// Who wants a snapshot asks a sidecar by the service for clients, too.
		Forwards: []config.Forward{
			{Port: etcdconstants.PortBackupRestore, MemberPort: etcdconstants.PortBackupRestore},
		},
		Health:  config.Endpoint{Port: portHealth},
		Metrics: config.Endpoint{Port: portMetrics},
	}
	for ordinal, service := range c.objects().members {
		out.Members = append(out.Members, config.Member{
			Ordinal: ordinal,
			// Fully qualified, or each lookup would try the search domains first.
			Address: fmt.Sprintf("%s.%s.svc.cluster.local.:%d", service.Name, service.Namespace, naming.PortClient),
			// The certificate of a member is for its host in the peer service.
			ServerName: naming.MemberHost(c.namespace, c.etcdRole, ordinal),
		})
	}
	if c.alone() {
		out.Members = append(out.Members, config.Member{
			Ordinal: naming.FrontOrdinalOfSource,
			Address: fmt.Sprintf("%s.%s.svc.cluster.local.:%d", naming.Relay, c.namespace, naming.PortRelayClient),
			// By this name the relay chooses the member of the source, which has the same one.
			ServerName: naming.MemberHost(c.namespace, c.etcdRole, 0), OnlyRequests: true,
		})
		out.Limits.MemberWait.Duration = waitForOnly
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("failed to marshal the configuration of the front: %w", err)
	}
	return string(text), nil
}

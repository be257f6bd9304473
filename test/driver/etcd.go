// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/access"
)

// The etcd clusters of a shoot.
const (
	RoleMain   = v1beta1constants.ETCDRoleMain
	RoleEvents = v1beta1constants.ETCDRoleEvents
)

const (
	etcdClientPort = 2379
	// etcdTimeout bounds one attempt to list the members through one pod.
	etcdTimeout = 3 * time.Second
)

// EtcdPod is a pod of a shoot's etcd.
type EtcdPod struct {
	// Namespace is that of the shoot in the seed.
	Namespace string
	// Role is RoleMain or RoleEvents.
	Role string
	// Name is the name of the pod.
	Name string
}

// Etcd returns a client of the member that runs in the pod, through the API server of the seed. Its caller closes it.
func (c *Cluster) Etcd(ctx context.Context, pod EtcdPod) (*clientv3.Client, error) {
	config, err := c.etcdTLS(ctx, pod.Namespace, pod.Role)
	if err != nil {
		return nil, err
	}
	return c.dialEtcd(pod, config)
}

// EtcdMembers returns the list of members as the one that runs in the pod tells it.
func (c *Cluster) EtcdMembers(ctx context.Context, pod EtcdPod) (*clientv3.MemberListResponse, error) {
	etcd, err := c.Etcd(ctx, pod)
	if err != nil {
		return nil, err
	}
	defer func() { _ = etcd.Close() }()
	list, err := etcd.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to list the members of etcd-%s: %w", pod.Role, err)
	}
	return list, nil
}

func (c *Cluster) dialEtcd(pod EtcdPod, config *tls.Config) (*clientv3.Client, error) {
	forwarder, err := access.NewForwarder(c.Name, c.REST)
	if err != nil {
		return nil, err
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{fmt.Sprintf("https://%s:%d", config.ServerName, etcdClientPort)},
		TLS:         config,
		DialTimeout: etcdTimeout,
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return forwarder.Dial(ctx, pod.Namespace, pod.Name, etcdClientPort)
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("failed to create client for etcd-%s: %w", pod.Role, err)
	}
	return etcd, nil
}

// etcdTLS reads the client certificate that the shoot's own components use. It is the same in both seeds.
func (c *Cluster) etcdTLS(ctx context.Context, namespace, role string) (*tls.Config, error) {
	bundle, err := c.managedSecret(ctx, namespace, "bundle-for=ca-etcd")
	if err != nil {
		return nil, err
	}
	certificate, err := c.managedSecret(ctx, namespace, "name=etcd-client")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate.Data["tls.crt"], certificate.Data["tls.key"])
	if err != nil {
		return nil, fmt.Errorf("failed to read client certificate of etcd in namespace %s: %w", namespace, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle.Data["bundle.crt"]) {
		return nil, fmt.Errorf("failed to read CA of etcd in namespace %s", namespace)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		ServerName:   fmt.Sprintf("etcd-%s-client.%s.svc", role, namespace),
		RootCAs:      roots,
		Certificates: []tls.Certificate{pair},
	}, nil
}

// managedSecret returns the newest secret of the secrets manager that matches the selector.
func (c *Cluster) managedSecret(ctx context.Context, namespace, selector string) (*corev1.Secret, error) {
	list, err := c.Kube.CoreV1().Secrets(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: "managed-by=secrets-manager," + selector})
	if err != nil {
		return nil, fmt.Errorf("failed to list secrets in namespace %s: %w", namespace, err)
	}
	var newest *corev1.Secret
	for i := range list.Items {
		if newest == nil || newest.CreationTimestamp.Before(&list.Items[i].CreationTimestamp) {
			newest = &list.Items[i]
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("namespace %s of seed %s holds no secret with %s", namespace, c.Name, selector)
	}
	return newest, nil
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"


	"github.com/livecpm/livecpm/pkg/cli/access"
)

const (
	etcdClientPort = 2379
	// etcdInterval is how often the members are listed. It bounds the error of the six-member window.
	etcdInterval = 300 * time.Millisecond
	// etcdTimeout bounds one attempt to list them through one pod.
	etcdTimeout = 3 * time.Second
)

// podReader gives the pods of a StatefulSet that run in a seed now.
type podReader interface {
	runningPods(seed, workload string) []string
}

// etcdObserver lists the members of one etcd cluster through whichever of its pods answers, in either seed.
type etcdObserver struct {
	role      string
	namespace string
	seeds     []*cluster
	pods      podReader
	timeline  *MemberTimeline

	tls     *tls.Config
	clients map[string]*clientv3.Client

	mu sync.Mutex
	// err is why the last look at the members failed, if it did.
	err error
}

func newEtcdObserver(role, namespace string, seeds []*cluster, pods podReader) *etcdObserver {
	return &etcdObserver{
		role:      role,
		namespace: namespace,
		seeds:     seeds,
		pods:      pods,
		timeline:  &MemberTimeline{},
		clients:   map[string]*clientv3.Client{},
	}
}

// run lists the members until the context ends.
func (o *etcdObserver) run(ctx context.Context) {
	defer func() {
		for key := range o.clients {
			o.drop(key)
		}
	}()
	ticker := time.NewTicker(etcdInterval)
	defer ticker.Stop()
	for {
		err := o.observe(ctx)
		if ctx.Err() != nil {
			return
		}
		o.mu.Lock()
		o.err = err
		o.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (o *etcdObserver) observe(ctx context.Context) error {
	errs := []error{}
	for _, seed := range o.seeds {
		for _, pod := range o.pods.runningPods(seed.name, "etcd-"+o.role) {
			err := o.observeVia(ctx, seed, pod)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return fmt.Errorf("no pod of etcd-%s runs", o.role)
	}
	return errors.Join(errs...)
}

func (o *etcdObserver) lastError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *etcdObserver) observeVia(ctx context.Context, seed *cluster, pod string) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()

	key := seed.name + "/" + pod
	etcd, ok := o.clients[key]
	if !ok {
		var err error
		if etcd, err = o.connect(ctx, seed, pod); err != nil {
			return err
		}
		o.clients[key] = etcd
	}
	response, err := etcd.MemberList(ctx)
	if err != nil {
		o.drop(key)
		return fmt.Errorf("failed to list members of etcd-%s through pod %s: %w", o.role, key, err)
	}

	members := make([]Member, 0, len(response.Members))
	for _, member := range response.Members {
		name := member.Name
		if name == "" {
			// A member that was added and has not started yet has no name.
			name = "unstarted-" + strconv.FormatUint(member.ID, 16)
		}
		members = append(members, Member{Name: name, Learner: member.IsLearner})
	}
	o.timeline.Observe(time.Now(), response.Header.ClusterId, members)
	return nil
}

func (o *etcdObserver) drop(key string) {
	_ = o.clients[key].Close()
	delete(o.clients, key)
}

func (o *etcdObserver) connect(ctx context.Context, seed *cluster, pod string) (*clientv3.Client, error) {
	if o.tls == nil {
		config, err := etcdTLS(ctx, seed, o.namespace, o.role)
		if err != nil {
			return nil, err
		}
		o.tls = config
	}
	return newEtcdClient(seed, o.namespace, o.role, pod, o.tls)
}

// EtcdClient returns a client of the member of a shoot's etcd that runs in the pod, through the API server of the seed.
func EtcdClient(ctx context.Context, seed, kubeconfig, namespace, role, pod string) (*clientv3.Client, error) {
	c, err := connect(seed, kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := etcdTLS(ctx, c, namespace, role)
	if err != nil {
		return nil, err
	}
	return newEtcdClient(c, namespace, role, pod, config)
}

func newEtcdClient(seed *cluster, namespace, role, pod string, config *tls.Config) (*clientv3.Client, error) {
	forwarder, err := access.NewForwarder(seed.name, seed.rest)
	if err != nil {
		return nil, err
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{fmt.Sprintf("https://%s:%d", config.ServerName, etcdClientPort)},
		TLS:         config,
		DialTimeout: etcdTimeout,
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return forwarder.Dial(ctx, namespace, pod, etcdClientPort)
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("failed to create client for etcd-%s: %w", role, err)
	}
	return etcd, nil
}

// etcdTLS reads the client certificate that the shoot's own components use. It is the same in both seeds.
func etcdTLS(ctx context.Context, seed *cluster, namespace, role string) (*tls.Config, error) {
	bundle, err := managedSecret(ctx, seed, namespace, "bundle-for=ca-etcd")
	if err != nil {
		return nil, err
	}
	certificate, err := managedSecret(ctx, seed, namespace, "name=etcd-client")
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
func managedSecret(ctx context.Context, seed *cluster, namespace, selector string) (*corev1.Secret, error) {
	list, err := seed.kube.CoreV1().Secrets(namespace).List(ctx,
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
		return nil, fmt.Errorf("namespace %s of seed %s holds no secret with %s", namespace, seed.name, selector)
	}
	return newest, nil
}

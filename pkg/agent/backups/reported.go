// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	etcdconstants "github.com/gardener/gardener/pkg/component/etcd/etcd/constants"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// ReportWait is how somebody waits until etcd-druid reports the backups of the main etcd as ready. All fields are
// required.
type ReportWait struct {
	// Clock is the clock.
	Clock clock.Clock
	// Interval is the pause between two looks, Bound how long to wait at most.
	Interval, Bound time.Duration
	// Trigger makes the sidecar of the leader save a delta snapshot; see SnapshotDelta.
	Trigger func(ctx context.Context) error
	// Report is called with what is missing, before each pause.
	Report func(ctx context.Context, missing string) error
}

// WaitUntilReported waits until etcd-druid reports the backups of the main etcd in the namespace as ready, and brings
// that about. It returns what is missing when the bound is over, and an empty text otherwise.
//
// etcd-druid (v0.38.1) can tell when both leases of snapshots have been renewed. A new leader of etcd begins with a
// full snapshot and saves the first delta snapshot after five minutes. Until then the condition BackupReady is Unknown,
// and the gardenlet sets the shoot's ControlPlaneHealthy to False for it.
func (b *Backups) WaitUntilReported(ctx context.Context, namespace string, wait ReportWait) (string, error) {
	var (
		begin     = wait.Clock.Now()
		triggered bool
	)
	for {
		missing, err := b.missingReport(ctx, namespace)
		if err != nil || missing == "" {
			return "", err
		}
		if !triggered {
			// The snapshotter may not be active yet.
			if err := wait.Trigger(ctx); err != nil {
				missing = fmt.Sprintf("%s; %s", missing, err)
			} else {
				triggered = true
			}
		}
		if wait.Clock.Since(begin) >= wait.Bound {
			return missing, nil
		}
		if err := wait.Report(ctx, missing); err != nil {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("failed to wait until the backups are reported: %w: %s", ctx.Err(), missing)
		case <-wait.Clock.After(wait.Interval):
		}
	}
}

// missingReport returns what etcd-druid says unless it says that the backups are ready.
func (b *Backups) missingReport(ctx context.Context, namespace string) (string, error) {
	etcd, err := b.readMainEtcd(ctx, namespace)
	if err != nil {
		return "", err
	}
	switch condition := backupReady(etcd); {
	case condition == nil:
		return fmt.Sprintf("etcd-druid does not report %s of %s", druidcorev1alpha1.ConditionTypeBackupReady,
			etcd.Name), nil
	case condition.Status != druidcorev1alpha1.ConditionTrue:
		return fmt.Sprintf("etcd-druid reports %s of %s as %s: %s", condition.Type, etcd.Name, condition.Status,
			condition.Message), nil
	}
	return "", nil
}

// backupReady returns the condition by which etcd-druid reports the backups; nil if there is none.
func backupReady(etcd *druidcorev1alpha1.Etcd) *druidcorev1alpha1.Condition {
	for i := range etcd.Status.Conditions {
		if etcd.Status.Conditions[i].Type == druidcorev1alpha1.ConditionTypeBackupReady {
			return &etcd.Status.Conditions[i]
		}
	}
	return nil
}

func (b *Backups) readMainEtcd(ctx context.Context, namespace string) (*druidcorev1alpha1.Etcd, error) {
	etcd := &druidcorev1alpha1.Etcd{}
	key := client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(v1beta1constants.ETCDRoleMain)}
	if err := b.options.SeedClientSet.APIReader().Get(ctx, key, etcd); err != nil {
		return nil, fmt.Errorf("failed to read Etcd %s: %w", key, err)
	}
	return etcd, nil
}

// SnapshotDelta makes the sidecar of the main etcd's leader save a delta snapshot and renew the lease by which
// etcd-druid knows of it, also if there was nothing to save. It needs an initialized secrets management.
func SnapshotDelta(ctx context.Context, b *botanist.Botanist) error {
	sidecar, err := newSidecar(b)
	if err != nil {
		return err
	}
	defer sidecar.close()
	return getSnapshot(ctx, sidecar.client, sidecar.url+"/snapshot/delta")
}

// sidecar is the way to the sidecars of the main etcd. Whichever answers passes a request about snapshots on to that of
// the leader.
type sidecar struct {
	client *http.Client
	url    string
	close  func()
}

func newSidecar(b *botanist.Botanist) (*sidecar, error) {
	secret, found := b.SecretsManager.Get(v1beta1constants.SecretNameCAETCD)
	if !found {
		return nil, fmt.Errorf("failed to find secret %s", v1beta1constants.SecretNameCAETCD)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data[secretsutils.DataKeyCertificateBundle])
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	return &sidecar{
		client: &http.Client{Transport: transport, Timeout: sidecarTimeout},
		url: fmt.Sprintf("https://%s.%s:%d", etcdconstants.ServiceName(v1beta1constants.ETCDRoleMain),
			b.Shoot.ControlPlaneNamespace, etcdconstants.PortBackupRestore),
		close: transport.CloseIdleConnections,
	}, nil
}

// sidecarTimeout bounds one request. A delta snapshot saves what was written within minutes.
const sidecarTimeout = 30 * time.Second

func getSnapshot(ctx context.Context, c *http.Client, url string) error {
	answer, err := askSidecar(ctx, c, url)
	if err != nil {
		return fmt.Errorf("failed to ask for a delta snapshot: %w", err)
	}
	_ = answer.Close()
	return nil
}

// askSidecar returns the answer to a request that has succeeded. Close it.
func askSidecar(ctx context.Context, c *http.Client, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("etcd-backup-restore answers %s", response.Status)
	}
	return response.Body, nil
}

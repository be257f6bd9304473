// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// TellRevision tells in the Shoot which revision the newest snapshot of the main etcd in the agent's own seed reaches
// (steps.AnnotationSourceRevision). Call it when no member is left here: nobody saves snapshots any more then.
//
// The sidecars write that revision into two leases, which never go back (etcd-backup-restore v0.44.1). They are gone
// with the Etcd, and by then it has been told. What they have and cannot be understood is not told, so that the
// destination leaves the backups where they are.
func TellRevision(ctx context.Context, b *botanist.Botanist) error {
	if !Enabled(b) {
		return nil
	}
	meta := metav1.ObjectMeta{Name: naming.EtcdName(v1beta1constants.ETCDRoleMain)}
	newest, found := int64(0), false
	for _, name := range []string{druidcorev1alpha1.GetFullSnapshotLeaseName(meta),
		druidcorev1alpha1.GetDeltaSnapshotLeaseName(meta)} {
		lease, key := &coordinationv1.Lease{}, client.ObjectKey{Namespace: b.Shoot.ControlPlaneNamespace, Name: name}
		if err := b.SeedClientSet.APIReader().Get(ctx, key, lease); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("failed to read Lease %s: %w", key, err)
		}
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		if holder == "" {
			continue
		}
		revision, err := strconv.ParseInt(holder, 10, 64)
		if err != nil {
			b.Logger.Error(err, "Not telling up to which revision snapshots reach", "lease", key)
			return nil
		}
		newest, found = max(newest, revision), true
	}
	told := strconv.FormatInt(newest, 10)
	if !found || b.Shoot.GetInfo().Annotations[steps.AnnotationSourceRevision] == told {
		return nil
	}
	return botanist.Annotate(ctx, b, steps.AnnotationSourceRevision, strconv.Quote(told))
}

// NewestRevision returns the last revision in the newest full snapshot of the main etcd, which the sidecar of its
// leader reads from the bucket of the agent's own seed. It needs an initialized secrets management.
func NewestRevision(ctx context.Context, b *botanist.Botanist) (int64, error) {
	sidecar, err := newSidecar(b)
	if err != nil {
		return 0, err
	}
	defer sidecar.close()
	return newestRevision(ctx, sidecar.client, sidecar.url+"/snapshot/latest")
}

func newestRevision(ctx context.Context, c *http.Client, url string) (int64, error) {
	answer, err := askSidecar(ctx, c, url)
	if err != nil {
		return 0, fmt.Errorf("failed to ask for the newest snapshots: %w", err)
	}
	defer func() { _ = answer.Close() }()
	// The names are those of etcd-backup-restore's types Snapshot and latestSnapshotMetadataResponse.
	var latest struct {
		FullSnapshot *struct {
			LastRevision int64 `json:"lastRevision"`
		} `json:"fullSnapshot"`
	}
	if err := json.NewDecoder(answer).Decode(&latest); err != nil {
		return 0, fmt.Errorf("failed to understand what the newest snapshots are: %w", err)
	}
	if latest.FullSnapshot == nil {
		return 0, errors.New("failed to find a full snapshot in the bucket")
	}
	return latest.FullSnapshot.LastRevision, nil
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/conflict"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// The initial cluster in the configuration of the source's members.
//
// A member that has lost its data joins the cluster again: its sidecar removes it and adds it as a learner. etcd then
// starts with an initial cluster that has to name exactly the members of the list, by their peer URLs
// (membership.ValidateClusterAndAssignIDs, "error validating peerURLs"). The sidecar takes it from the ConfigMap and
// leaves out who is not in the list (etcd-backup-restore v0.44.1, pkg/server/httpAPI.go, getInitialCluster). It can
// leave members out, but knows no others. So the ConfigMap has to name all that may be in the list, and may name more.
//
// In the destination etcd-druid names the members of both seeds, because the Etcd has a bootstrap. That can only be
// given to an Etcd when it is created, so the source's ConfigMap is changed here. Nothing restarts for it: a running
// etcd does not look at it, and the checksum in the template of the pods is the one that etcd-druid has computed of its
// own content (v0.38.1, internal/component/configmap, Sync). The sidecar uses the number of names only to tell one
// member from several. etcd-druid writes its own content again when it applies the specification of the Etcd, which
// only the gardenlet and operators ask for, so the agent looks again on every pass.

const (
	// configKey is the key of a member's configuration in the ConfigMap, and initialCluster that of the initial cluster
	// in the configuration.
	configKey, initialCluster = "etcd.conf.yaml", "initial-cluster"
	// protectionLag is for how long etcd-druid's webhook may refuse a change after the annotation that permits it was
	// set: it reads the Etcd from a cache.
	protectionLag = 10 * time.Second
)

// WidenInitialCluster lets members of the source that lose their data find the destination's members in their
// configuration, in both etcds. Those of the destination that have not joined are named as well.
func (j *Joint) WidenInitialCluster(ctx context.Context) error {
	return sideBySide(ctx, func(ctx context.Context, etcdRole string) error {
		return j.changeInitialCluster(ctx, etcdRole, func(entries []string) []string {
			for _, entry := range j.destinationEntries(etcdRole) {
				if !slices.Contains(entries, entry) {
					entries = append(entries, entry)
				}
			}
			return entries
		})
	})
}

// NarrowInitialCluster ends WidenInitialCluster, when no member of the destination is left. It also ends what an
// interruption has left of the permission to change the ConfigMap.
func (j *Joint) NarrowInitialCluster(ctx context.Context) error {
	return sideBySide(ctx, func(ctx context.Context, etcdRole string) error {
		if err := j.changeInitialCluster(ctx, etcdRole, func(entries []string) []string {
			theirs := j.destinationEntries(etcdRole)
			return slices.DeleteFunc(entries, func(entry string) bool { return slices.Contains(theirs, entry) })
		}); err != nil {
			return err
		}
		return j.protect(ctx, etcdRole)
	})
}

// destinationEntries are those of the destination's members, as etcd-druid writes them.
func (j *Joint) destinationEntries(etcdRole string) []string {
	var entries []string
	for ordinal := range j.Members {
		entries = append(entries, naming.MemberName(j.DestinationSeed, etcdRole, ordinal)+"="+
			j.peerURL(steps.Destination, etcdRole, ordinal))
	}
	return entries
}

// changeInitialCluster changes the entries of the initial cluster, if there is something to change.
func (j *Joint) changeInitialCluster(
	ctx context.Context, etcdRole string, change func(entries []string) []string,
) error {
	etcd, err := j.getEtcd(ctx, etcdRole)
	if err != nil {
		return err
	}
	configMap := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: j.Namespace, Name: druidcorev1alpha1.GetConfigMapName(etcd.ObjectMeta)}
	if err := j.Client.Get(ctx, key, configMap); err != nil {
		return fmt.Errorf("failed to get ConfigMap %s: %w", key, err)
	}
	patch := client.MergeFromWithOptions(configMap.DeepCopy(), client.MergeFromWithOptimisticLock{})
	former := configMap.Data[configKey]
	changed, err := withInitialCluster(former, change)
	if err != nil {
		return fmt.Errorf("failed to change the initial cluster in ConfigMap %s: %w", key, err)
	}
	if changed == former {
		return nil
	}
	configMap.Data[configKey] = changed

	j.Log.Info("Changing the initial cluster in the configuration of the members", "etcd", etcd.Name, "configMap",
		configMap.Name)
	if err := j.patchProtected(ctx, etcd, configMap, patch); err != nil {
		return fmt.Errorf("failed to change the initial cluster in ConfigMap %s: %w", key, err)
	}
	return nil
}

// patchProtected patches an object that etcd-druid has made for the Etcd and protects: its webhook lets nobody else
// change it unless an annotation of the Etcd says so. It is there for the moment of the change, or longer if it is
// there for another reason already.
func (j *Joint) patchProtected(
	ctx context.Context, etcd *druidcorev1alpha1.Etcd, object client.Object, patch client.Patch,
) error {
	protected := druidcorev1alpha1.AreManagedResourcesProtected(etcd.ObjectMeta)
	if err := j.annotate(ctx, etcd, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation); err != nil {
		return err
	}
	err := j.patchPermitted(ctx, object, patch)
	if protected {
		err = errors.Join(err, j.protect(ctx, strings.TrimPrefix(etcd.Name, naming.EtcdName(""))))
	}
	return err
}

// patchPermitted patches an object that etcd-druid protects. It tries again while the webhook refuses that because it
// has not seen the annotation of the Etcd yet.
func (j *Joint) patchPermitted(ctx context.Context, object client.Object, patch client.Patch) error {
	begin := j.Clock.Now()
	for {
		attempted, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("failed to copy %T %s", object, client.ObjectKeyFromObject(object))
		}
		err := j.Client.Patch(ctx, attempted, patch)
		if !apierrors.IsForbidden(err) || j.Clock.Since(begin) >= protectionLag {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-j.Clock.After(j.PollInterval):
		}
	}
}

// protect takes the permission away from everybody but etcd-druid again. While etcd-druid is suspended, the annotation
// belongs to whoever has done that, maybe just now.
func (j *Joint) protect(ctx context.Context, etcdRole string) error {
	attempt := func() error {
		etcd, err := j.getEtcd(ctx, etcdRole)
		if err != nil || druidcorev1alpha1.AreManagedResourcesProtected(etcd.ObjectMeta) ||
			metav1.HasAnnotation(etcd.ObjectMeta, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation) {
			return err
		}
		patch := client.MergeFromWithOptions(etcd.DeepCopy(), client.MergeFromWithOptimisticLock{})
		delete(etcd.Annotations, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation)
		return j.Client.Patch(ctx, etcd, patch)
	}
	if err := conflict.Retry(attempt); err != nil {
		return fmt.Errorf("failed to protect the resources of %s again: %w", naming.EtcdName(etcdRole), err)
	}
	return nil
}

// withInitialCluster returns the configuration with other entries of the initial cluster. It is unchanged, to the
// letter, if they are the same.
func withInitialCluster(config string, change func(entries []string) []string) (string, error) {
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(config), &content); err != nil {
		return "", fmt.Errorf("failed to read the configuration of etcd: %w", err)
	}
	former, _ := content[initialCluster].(string)
	if former == "" {
		return "", fmt.Errorf("the configuration of etcd in %s has no %s", configKey, initialCluster)
	}
	wanted := strings.Join(change(strings.Split(former, ",")), ",")
	if wanted == former {
		return config, nil
	}
	if wanted == "" {
		return "", fmt.Errorf("no member would be left in %s", initialCluster)
	}
	content[initialCluster] = wanted
	out, err := yaml.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("failed to write the configuration of etcd: %w", err)
	}
	return string(out), nil
}

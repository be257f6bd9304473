// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// JoiningEtcd is an Etcd of the destination that joins the source's cluster.
type JoiningEtcd struct {
	// Namespace is the shoot's namespace.
	Namespace string
	// SecretsManager holds the certificates of the shoot's etcds.
	SecretsManager secretsmanager.Interface
	// Upstream is Gardener's component. Its values, such as the backup configuration, must be set before.
	Upstream gardeneretcd.Interface
	// Bootstrap describes the cluster to join. It may be nil if the Etcd exists.
	Bootstrap *druidcorev1alpha1.BootstrapWithExistingCluster
}

// NewEtcd returns Gardener's own etcd component with the values of the upstream one, on a client that makes the Etcd
// join the cluster; see Decorate.
func NewEtcd(log logr.Logger, c client.Client, etcd JoiningEtcd) gardeneretcd.Interface {
	values := etcd.Upstream.GetValues()
	name := values.NamePrefix + gardeneretcd.Name(values.Role)
	decorated := Decorate(c, map[string]*druidcorev1alpha1.BootstrapWithExistingCluster{name: etcd.Bootstrap})
	return gardeneretcd.New(log, decorated, etcd.Namespace, etcd.SecretsManager, values)
}

// Decorate returns a client for Gardener's etcd component in the destination. The component knows nothing about
// joining: it replaces spec.etcd as a whole whenever it deploys. Through this client
//   - an Etcd is created with the given bootstrap (by name of the Etcd) and the destination's peer port, because
//     etcd-druid accepts the bootstrap at creation only;
//   - a patch keeps the bootstrap and the peer port that the Etcd has, and never asks for fewer replicas.
//
// An Etcd without bootstrap in the cluster, which means after the final deployment, is patched as the component wants
// it. The final deployment itself, which takes bootstrap and port away, is made with the undecorated client.
func Decorate(c client.Client, bootstrap map[string]*druidcorev1alpha1.BootstrapWithExistingCluster) client.Client {
	return &decorated{Client: c, bootstrap: bootstrap}
}

type decorated struct {
	client.Client
	bootstrap map[string]*druidcorev1alpha1.BootstrapWithExistingCluster
}

// Create implements client.Client.
func (d *decorated) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	if etcd, ok := object.(*druidcorev1alpha1.Etcd); ok {
		bootstrap, known := d.bootstrap[etcd.Name]
		if !known || bootstrap == nil {
			// Without a bootstrap the new Etcd would be a cluster of its own with the same name.
			return fmt.Errorf("refused to create Etcd %s: there is no cluster given for it to join",
				client.ObjectKeyFromObject(etcd))
		}
		if err := checkNames(etcd, bootstrap); err != nil {
			return err
		}
		etcd.Spec.Etcd.BootstrapWithExistingCluster = bootstrap.DeepCopy()
		etcd.Spec.Etcd.ServerPort = new(int32(naming.PortPeerDestination))
	}
	return d.Client.Create(ctx, object, opts...)
}

// checkNames returns an error if a member of the new Etcd would have the name of one that it joins. etcd tells members
// apart by more than their names, but those who work on them do not: the sidecar of the new member would take itself
// for the old one, and update or remove it.
func checkNames(etcd *druidcorev1alpha1.Etcd, bootstrap *druidcorev1alpha1.BootstrapWithExistingCluster) error {
	for ordinal := range naming.MembersPerSeed {
		name := druidcorev1alpha1.GetMemberName(etcd.Spec.MemberNamePrefix,
			druidcorev1alpha1.GetOrdinalPodName(etcd.ObjectMeta, ordinal))
		for _, member := range bootstrap.Members {
			if member.Name == name {
				return fmt.Errorf("refused to create Etcd %s: the cluster that it joins has a member named %s "+
					"already; turn the gate UpgradeEtcdVersion on in this seed's gardenlet, which puts the name of "+
					"the seed before the names of new members, and restart the agent",
					client.ObjectKeyFromObject(etcd), name)
			}
		}
	}
	return nil
}

// Patch implements client.Client.
func (d *decorated) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	if etcd, ok := object.(*druidcorev1alpha1.Etcd); ok {
		var err error
		if patch, err = d.keepJoining(ctx, etcd, patch); err != nil {
			return err
		}
	}
	return d.Client.Patch(ctx, object, patch, opts...)
}

// keepJoining takes out of the patch what would change the joint specification. Gardener's helpers hand over a patch
// that they computed before, so changing the object would have no effect.
func (d *decorated) keepJoining(
	ctx context.Context, etcd *druidcorev1alpha1.Etcd, patch client.Patch,
) (client.Patch, error) {
	key := client.ObjectKeyFromObject(etcd)
	current := &druidcorev1alpha1.Etcd{}
	if err := d.Client.Get(ctx, key, current); err != nil {
		return nil, fmt.Errorf("failed to get Etcd %s: %w", key, err)
	}
	if current.Spec.Etcd.BootstrapWithExistingCluster == nil {
		return patch, nil
	}
	if patch.Type() != types.MergePatchType {
		return nil, fmt.Errorf("failed to patch Etcd %s: patches of type %s are not supported while it is part of a "+
			"joint cluster", key, patch.Type())
	}

	data, err := patch.Data(etcd)
	if err != nil {
		return nil, fmt.Errorf("failed to compute the patch of Etcd %s: %w", key, err)
	}
	content := map[string]any{}
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("failed to read the patch of Etcd %s: %w", key, err)
	}
	unstructured.RemoveNestedField(content, "spec", "etcd", "bootstrapWithExistingCluster")
	unstructured.RemoveNestedField(content, "spec", "etcd", "serverPort")
	if replicas, found, _ := unstructured.NestedInt64(content, "spec", "replicas"); found &&
		replicas < int64(current.Spec.Replicas) {
		unstructured.RemoveNestedField(content, "spec", "replicas")
	}
	if data, err = json.Marshal(content); err != nil {
		return nil, fmt.Errorf("failed to write the patch of Etcd %s: %w", key, err)
	}
	return client.RawPatch(types.MergePatchType, data), nil
}

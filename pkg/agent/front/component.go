// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/controllerutils"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	"github.com/gardener/gardener/pkg/utils/retry"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// component is the front of one etcd.
type component struct {
	Options
	log                 logr.Logger
	namespace, etcdRole string
	// members is how many the etcd has in one seed. If it is one, the front leads to that of the source as well, which
	// serves until the one here does.
	members int
}

// alone reports whether the etcd has one member in one seed.
func (c *component) alone() bool { return c.members == naming.SingleMember }

// secretNames are the secrets of an etcd that its front uses.
type secretNames struct {
	// ca has the authority of etcd's servers and clients under caKey.
	ca, caKey string
	// server has the certificate with which etcd serves its clients, client the one with which they come.
	server, client string
}

// secretsOf returns the secrets that the Etcd refers to. It fails if a reference is missing, or what is referred to.
func (c *component) secretsOf(ctx context.Context, etcd *druidcorev1alpha1.Etcd) (secretNames, error) {
	key, refs := client.ObjectKeyFromObject(etcd), etcd.Spec.Etcd.ClientUrlTLS
	if refs == nil {
		return secretNames{},
			fmt.Errorf("failed to find spec.etcd.clientUrlTls of Etcd %s: the front serves with TLS only", key)
	}
	names := secretNames{
		ca: refs.TLSCASecretRef.Name, caKey: ptr.Deref(refs.TLSCASecretRef.DataKey, secretsutils.DataKeyCertificateCA),
		server: refs.ServerTLSSecretRef.Name, client: refs.ClientTLSSecretRef.Name,
	}
	pair := []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}
	for _, secret := range []struct {
		field, name string
		keys        []string
	}{
		{"tlsCASecretRef", names.ca, []string{names.caKey}},
		{"serverTLSSecretRef", names.server, pair},
		{"clientTLSSecretRef", names.client, pair},
	} {
		if secret.name == "" {
			return secretNames{}, fmt.Errorf("failed to find spec.etcd.clientUrlTls.%s of Etcd %s", secret.field, key)
		}
		found := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: secret.name}}
		if err := c.SeedClient.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil {
			return secretNames{}, fmt.Errorf("failed to get the secret of spec.etcd.clientUrlTls.%s of Etcd %s: %w",
				secret.field, key, err)
		}
		for _, dataKey := range secret.keys {
			if len(found.Data[dataKey]) == 0 {
				return secretNames{}, fmt.Errorf("secret %s, the spec.etcd.clientUrlTls.%s of Etcd %s, has no data %s",
					secret.name, secret.field, key, dataKey)
			}
		}
	}
	return names, nil
}

func (c *component) getEtcd(ctx context.Context) (*druidcorev1alpha1.Etcd, error) {
	etcd, key := &druidcorev1alpha1.Etcd{}, client.ObjectKey{Namespace: c.namespace, Name: naming.EtcdName(c.etcdRole)}
	if err := c.SeedClient.Get(ctx, key, etcd); err != nil {
		return nil, fmt.Errorf("failed to get Etcd %s: %w", key, err)
	}
	return etcd, nil
}

func (c *component) deploy(ctx context.Context) error {
	etcd, err := c.getEtcd(ctx)
	if err != nil {
		return err
	}
	secrets, err := c.secretsOf(ctx, etcd)
	if err != nil {
		return err
	}
	config, err := c.configYAML(secrets)
	if err != nil {
		return err
	}

	type task struct {
		object client.Object
		mutate func()
	}
	objects := c.objects()
	tasks := []task{
		{objects.configMap, func() { c.mutateConfigMap(objects.configMap, config) }},
		{objects.podDisruptionBudget, func() { c.mutatePodDisruptionBudget(objects.podDisruptionBudget) }},
	}
	for ordinal, service := range objects.members {
		tasks = append(tasks, task{service, func() { c.mutateMember(service, etcd, ordinal) }})
	}
	for suffix, policy := range objects.policies {
		tasks = append(tasks, task{policy, func() { c.mutatePolicy(policy, suffix) }})
	}
	tasks = append(tasks,
		task{objects.deployment, func() { c.mutateDeployment(objects.deployment, config, secrets) }})
	for _, task := range tasks {
		if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, c.SeedClient, task.object, func() error {
			task.mutate()
			return nil
		}); err != nil {
			return fmt.Errorf("failed to deploy %T %s: %w", task.object, client.ObjectKeyFromObject(task.object), err)
		}
	}
	return nil
}

func (c *component) wait(ctx context.Context) error {
	return c.until(ctx, "the pods are ready", func(ctx context.Context) error {
		deployment := c.objects().deployment
		if err := c.SeedClient.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return fmt.Errorf("failed to get Deployment %s: %w", client.ObjectKeyFromObject(deployment), err)
		}
		if err := health.CheckDeployment(deployment); err != nil {
			return fmt.Errorf("failed to roll out Deployment %s: %w", client.ObjectKeyFromObject(deployment), err)
		}
		if progressing, why := health.IsDeploymentProgressing(deployment); progressing {
			return fmt.Errorf("failed to roll out Deployment %s: %s", client.ObjectKeyFromObject(deployment), why)
		}
		return nil
	})
}

// state returns what the Deployment says that the front is for, and the Deployment. Both are empty without one.
func (c *component) state(ctx context.Context) (string, *appsv1.Deployment, error) {
	deployment := c.objects().deployment
	if err := c.SeedClient.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil, nil
		}
		return "", nil, fmt.Errorf("failed to get Deployment %s: %w", client.ObjectKeyFromObject(deployment), err)
	}
	if deployment.DeletionTimestamp != nil {
		return stateWithdrawn, deployment, nil
	}
	return deployment.Annotations[annotationState], deployment, nil
}

func (c *component) remove(ctx context.Context) error {
	if err := c.checkLedBack(ctx); err != nil {
		return err
	}
	objects := c.objects()
	if err := kubernetesutils.DeleteObjects(ctx, c.SeedClient, objects.deployment); err != nil {
		return fmt.Errorf("failed to delete Deployment %s: %w", client.ObjectKeyFromObject(objects.deployment), err)
	}
	if err := c.until(ctx, "its pods are gone", func(ctx context.Context) error {
		pods, err := c.podsOf(ctx, c.podLabels())
		if err != nil {
			return err
		}
		if len(pods) > 0 {
			return fmt.Errorf("%d pods of the front are still there, the first is %s", len(pods), pods[0].Name)
		}
		return nil
	}); err != nil {
		return err
	}

	rest := []client.Object{objects.podDisruptionBudget, objects.configMap}
	for _, service := range objects.members {
		rest = append(rest, service)
	}
	if err := kubernetesutils.DeleteObjects(ctx, c.SeedClient, rest...); err != nil {
		return fmt.Errorf("failed to delete what the pods of the front have used: %w", err)
	}
	if err := c.until(ctx, "Gardener's policies permit what goes to the members", func(ctx context.Context) error {
		derived := &networkingv1.NetworkPolicyList{}
		if err := c.SeedClient.List(ctx, derived, client.InNamespace(c.namespace),
			client.MatchingLabels(c.derivedLabels())); err != nil {
			return fmt.Errorf("failed to list the policies for service %s: %w", naming.ClientServiceName(c.etcdRole),
				err)
		}
		return c.followed(derived.Items)
	}); err != nil {
		return err
	}
	for _, policy := range objects.policies {
		if err := kubernetesutils.DeleteObject(ctx, c.SeedClient, policy); err != nil {
			return fmt.Errorf("failed to delete NetworkPolicy %s: %w", client.ObjectKeyFromObject(policy), err)
		}
	}
	return nil
}

// until repeats a look until it finds nothing that is missing.
func (c *component) until(ctx context.Context, what string, look func(context.Context) error) error {
	if err := retry.UntilTimeout(ctx, c.PollInterval, waitTimeout, func(ctx context.Context) (bool, error) {
		if err := look(ctx); err != nil {
			return retry.MinorError(err)
		}
		return retry.Ok()
	}); err != nil {
		return fmt.Errorf("failed to wait until %s: %w", what, err)
	}
	return nil
}

func (c *component) podsOf(ctx context.Context, labels map[string]string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.SeedClient.List(ctx, list, client.InNamespace(c.namespace),
		client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("failed to list the pods with labels %v: %w", labels, err)
	}
	return list.Items, nil
}

func isReady(pod corev1.Pod) bool { return pod.DeletionTimestamp == nil && health.IsPodReady(&pod) }

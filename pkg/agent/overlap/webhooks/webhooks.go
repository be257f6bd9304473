// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package webhooks answers the webhooks of a shoot's resource manager in a seed whose resource manager must not act, or
// is no longer there.
//
// Each kube-apiserver of a shoot asks the resource manager of its own seed: the webhooks' configuration in the shoot
// names it by its service in the shoot's namespace, which is the same in both seeds. Where none runs, requests that
// meet a webhook with the failure policy Fail are refused. So a second Deployment runs Gardener's resource manager
// behind the same service. Every replica of a resource manager answers webhooks; only the one that holds the Lease runs
// controllers. Three things keep the pods of this Deployment from acting, each of which would do:
//
//   - they elect by a Lease of their own, which somebody holds who never lets go and whose time does not run out;
//   - their ServiceAccount may not write that Lease, nor any other, nor anything else in the seed;
//   - their access to the shoot may only read.
package webhooks

import (
	"context"
	"fmt"
	"math"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/component"
	"github.com/gardener/gardener/pkg/component/gardener/resourcemanager"
	resourcemanagerconstants "github.com/gardener/gardener/pkg/component/gardener/resourcemanager/constants"
	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	"github.com/gardener/gardener/pkg/utils/retry"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/pkg/migration/ownership"
)

const (
	// name is that of all objects of a Server, but for those that it shares with the resource manager.
	name = ownership.WebhookServer
	// twin is the value of overlap.LabelTwin on all of them, and on the pods.
	twin = "webhooks"
	// user is who the pods are in the shoot.
	user = "livecpm.gardener.cloud:webhooks"
	// replicas are as many as Gardener gives the resource manager: one answers while the other one moves.
	replicas = 2
	// validity of the certificate with which the pods come to the shoot. A migration may be paused for weeks. It is
	// worth nothing once the rights in the shoot are withdrawn.
	validity = 90 * 24 * time.Hour
	// configKey is where Gardener's component puts the configuration.
	configKey = "config.yaml"

	annotationChecksum = "checksum/config"
)

// Server is what answers the webhooks of one shoot in the agent's own seed, in one attempt of a step.
type Server struct {
	seed     client.Client
	botanist *botanist.Botanist
	clock    clock.PassiveClock
	// component is Gardener's. It writes into recorded.
	component resourcemanager.Interface
	recorded  client.Reader
}

// New returns the Server. It must not be called while tasks of the botanist run; see overlap.Record.
func New(b *botanist.Botanist, clock clock.PassiveClock) (*Server, error) {
	s := &Server{seed: b.SeedClientSet.Client(), botanist: b, clock: clock}
	var err error
	s.recorded, err = overlap.Record(b, func() error {
		var err error
		s.component, err = b.DefaultResourceManager()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to make the component of the resource manager: %w", err)
	}
	return s, nil
}

// Deploy deploys the Server. The botanist's secrets management must have been initialized. It fails if somebody has
// the Lease who could act; then nothing has been started.
func (s *Server) Deploy(ctx context.Context) error {
	access, err := s.access(ctx)
	if err != nil {
		return err
	}
	s.component.SetReplicas(ptr.To[int32](replicas))
	// The component mounts this in place of its own access to the shoot.
	s.component.SetSecrets(resourcemanager.Secrets{BootstrapKubeconfig: &component.Secret{Name: access.Name}})
	if err := s.component.Deploy(ctx); err != nil {
		return fmt.Errorf("failed to write the objects of the resource manager: %w", err)
	}
	if err := s.deployRights(ctx); err != nil {
		return err
	}
	if err := s.share(ctx); err != nil {
		return err
	}
	return s.deployPods(ctx)
}

// access returns the secret with the pods' access to the shoot through the kube-apiserver of this seed.
func (s *Server) access(ctx context.Context) (*corev1.Secret, error) {
	manager, shoot := s.botanist.SecretsManager, s.botanist.Shoot
	ca, found := manager.Get(v1beta1constants.SecretNameCACluster)
	if !found {
		return nil, fmt.Errorf("failed to find secret %s", v1beta1constants.SecretNameCACluster)
	}
	secret, err := manager.Generate(ctx, &secretsutils.ControlPlaneSecretConfig{
		Name: name,
		CertificateSecretConfig: &secretsutils.CertificateSecretConfig{
			CommonName: user, CertType: secretsutils.ClientCert, Validity: ptr.To(validity),
			SkipPublishingCACertificate: true,
		},
		KubeConfigRequests: []secretsutils.KubeConfigRequest{{
			ClusterName:   shoot.ControlPlaneNamespace,
			APIServerHost: shoot.ComputeInClusterAPIServerAddress(true),
			CAData:        ca.Data[secretsutils.DataKeyCertificateBundle],
		}},
	}, secretsmanager.SignedByCA(v1beta1constants.SecretNameCAClient), secretsmanager.Rotate(secretsmanager.InPlace))
	if err != nil {
		return nil, fmt.Errorf("failed to make the access of %s to the shoot: %w", name, err)
	}
	return secret, nil
}

// deployRights deploys who the pods are in the seed. They may read the Lease that they do not get, and machines, for
// the webhook that authorizes gardener-node-agent.
func (s *Server) deployRights(ctx context.Context) error {
	var (
		account = &corev1.ServiceAccount{ObjectMeta: s.meta()}
		role    = &rbacv1.Role{ObjectMeta: s.meta()}
		binding = &rbacv1.RoleBinding{ObjectMeta: s.meta()}
	)
	if err := s.write(ctx, account, func() { account.AutomountServiceAccountToken = ptr.To(false) }); err != nil {
		return err
	}
	if err := s.holdLease(ctx, account); err != nil {
		return err
	}
	if err := s.write(ctx, role, func() {
		role.Rules = []rbacv1.PolicyRule{
			{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
				ResourceNames: []string{name}, Verbs: []string{"get"}},
			{APIGroups: []string{"machine.sapcloud.io"}, Resources: []string{"machines"}, Verbs: reading()},
		}
	}); err != nil {
		return err
	}
	return s.write(ctx, binding, func() {
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}
		binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name,
			Namespace: account.Namespace}}
	})
}

// holdLease makes sure that nobody gets the Lease by which the pods elect. client-go leaves a Lease alone for as long
// as it says after it was seen last (isLeaseValid in tools/leaderelection), and this one says 68 years, which is as
// long as there are. It goes with the ServiceAccount.
func (s *Server) holdLease(ctx context.Context, owner *corev1.ServiceAccount) error {
	lease := &coordinationv1.Lease{ObjectMeta: s.meta()}
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: corev1.SchemeGroupVersion.String(),
		Kind: "ServiceAccount", Name: owner.Name, UID: owner.UID}}
	now := metav1.NewMicroTime(s.clock.Now())
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(ownership.WebhookServerHolder),
		LeaseDurationSeconds: ptr.To[int32](math.MaxInt32),
		AcquireTime:          &now, RenewTime: &now,
	}
	err := s.seed.Create(ctx, lease)
	if apierrors.IsAlreadyExists(err) {
		err = s.seed.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	}
	if err != nil {
		return fmt.Errorf("failed to hold Lease %s: %w", client.ObjectKeyFromObject(lease), err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != ownership.WebhookServerHolder ||
		ptr.Deref(lease.Spec.LeaseDurationSeconds, 0) != math.MaxInt32 {
		return fmt.Errorf("failed to hold Lease %s: %q holds it for %d seconds; delete Deployment %s there, and then "+
			"the Lease", client.ObjectKeyFromObject(lease), holder, ptr.Deref(lease.Spec.LeaseDurationSeconds, 0), name)
	}
	return nil
}

// share deploys what the pods share with the resource manager, where there is none: the service that the webhooks'
// configuration names, and the disruption budget for all pods behind it. Gardener's component takes them over.
func (s *Server) share(ctx context.Context) error {
	for _, object := range []client.Object{
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: resourcemanagerconstants.ServiceName}},
		&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: v1beta1constants.DeploymentNameGardenerResourceManager}},
	} {
		key := client.ObjectKey{Namespace: s.botanist.Shoot.ControlPlaneNamespace, Name: object.GetName()}
		if err := s.recorded.Get(ctx, key, object); err != nil {
			return fmt.Errorf("failed to find what Gardener's component has written: %T %s: %w", object, key, err)
		}
		object.SetResourceVersion("")
		if err := s.seed.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("failed to create %T %s: %w", object, key, err)
		}
	}
	return nil
}

// deployPods deploys the pods of Gardener's component under another name, with another ServiceAccount and another
// Lease.
func (s *Server) deployPods(ctx context.Context) error {
	var (
		namespace = s.botanist.Shoot.ControlPlaneNamespace
		regular   = &appsv1.Deployment{}
		key       = client.ObjectKey{Namespace: namespace, Name: v1beta1constants.DeploymentNameGardenerResourceManager}
	)
	if err := s.recorded.Get(ctx, key, regular); err != nil {
		return fmt.Errorf("failed to find the Deployment that Gardener's component has written: %w", err)
	}
	config, err := s.config(ctx, regular)
	if err != nil {
		return err
	}
	configMap := &corev1.ConfigMap{ObjectMeta: s.meta()}
	if err := s.write(ctx, configMap, func() {
		configMap.Data = map[string]string{configKey: config}
	}); err != nil {
		return err
	}
	spec := regular.Spec
	spec.Selector = &metav1.LabelSelector{
		MatchLabels: utils.MergeStringMaps(spec.Selector.MatchLabels, map[string]string{overlap.LabelTwin: twin})}
	spec.Template.Labels = utils.MergeStringMaps(spec.Template.Labels, map[string]string{overlap.LabelTwin: twin})
	spec.Template.Spec.ServiceAccountName = name
	volumeOf(&spec.Template.Spec).Name = name

	spec.Template.Annotations = map[string]string{annotationChecksum: utils.ComputeSHA256Hex([]byte(config))}

	deployment := &appsv1.Deployment{ObjectMeta: s.meta()}
	return s.write(ctx, deployment, func() {
		// Gardener's webhook in the seed spreads the pods by it.
		deployment.Labels = utils.MergeStringMaps(deployment.Labels, map[string]string{
			resourcesv1alpha1.HighAvailabilityConfigType: resourcesv1alpha1.HighAvailabilityConfigTypeServer,
		})
		deployment.Spec = *spec.DeepCopy()
	})
}

// volumeOf returns the volume of the configuration; an empty one if there is none.
func volumeOf(spec *corev1.PodSpec) *corev1.ConfigMapVolumeSource {
	for i := range spec.Volumes {
		if spec.Volumes[i].ConfigMap != nil {
			return spec.Volumes[i].ConfigMap
		}
	}
	return &corev1.ConfigMapVolumeSource{}
}

// config returns the configuration of the resource manager with the Lease that its pods do not get. It fails if
// Gardener's configuration is not what it is known to be: the pods would elect by the regular Lease.
func (s *Server) config(ctx context.Context, regular *appsv1.Deployment) (string, error) {
	key := client.ObjectKey{Namespace: regular.Namespace, Name: volumeOf(&regular.Spec.Template.Spec).Name}
	configMap := &corev1.ConfigMap{}
	if err := s.recorded.Get(ctx, key, configMap); err != nil {
		return "", fmt.Errorf("failed to find the configuration that Gardener's component has written: %w", err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(configMap.Data[configKey]), &config); err != nil {
		return "", fmt.Errorf("failed to read the configuration of the resource manager in ConfigMap %s: %w", key, err)
	}
	election, _ := config["leaderElection"].(map[string]any)
	if election["leaderElect"] != true ||
		election["resourceName"] != v1beta1constants.DeploymentNameGardenerResourceManager {
		return "", fmt.Errorf("failed to change the Lease of the resource manager: leaderElection in its "+
			"configuration (ConfigMap %s) is %v", key, election)
	}
	election["resourceName"] = name
	out, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("failed to write the configuration of %s: %w", name, err)
	}
	return string(out), nil
}

func (s *Server) meta() metav1.ObjectMeta { return objectMeta(s.botanist.Shoot.ControlPlaneNamespace) }

func objectMeta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace,
		Labels: map[string]string{overlap.LabelTwin: twin}}
}

// write creates or patches the object.
func (s *Server) write(ctx context.Context, object client.Object, mutate func()) error {
	labels := object.GetLabels()
	if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, s.seed, object, func() error {
		object.SetLabels(utils.MergeStringMaps(object.GetLabels(), labels))
		mutate()
		return nil
	}); err != nil {
		return fmt.Errorf("failed to deploy %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// Check returns an error unless all pods of the Server answer.
func (s *Server) Check(ctx context.Context) error {
	return checkRollout(ctx, s.seed, client.ObjectKeyFromObject(&appsv1.Deployment{ObjectMeta: s.meta()}))
}

// WaitForRegular waits until the resource manager that acts is rolled out, for as long as Gardener's component does.
// The component's own Wait would wait for the end of the Server: it counts the pods that the Deployment's selector
// matches (DeploymentHasExactNumberOfPods in gardener's pkg/utils/kubernetes/health), and that matches the Server's
// pods as well.
func WaitForRegular(ctx context.Context, seed client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, resourcemanager.TimeoutWaitForDeployment)
	defer cancel()
	key := client.ObjectKey{Namespace: namespace, Name: v1beta1constants.DeploymentNameGardenerResourceManager}
	return retry.Until(ctx, resourcemanager.IntervalWaitForDeployment, func(ctx context.Context) (bool, error) {
		if err := checkRollout(ctx, seed, key); err != nil {
			return retry.MinorError(err)
		}
		return retry.Ok()
	})
}

// checkRollout returns an error unless all pods of the Deployment are those that it asks for, and are available.
func checkRollout(ctx context.Context, seed client.Client, key client.ObjectKey) error {
	deployment := &appsv1.Deployment{}
	if err := seed.Get(ctx, key, deployment); err != nil {
		return fmt.Errorf("failed to get Deployment %s: %w", key, err)
	}
	if err := health.CheckDeployment(deployment); err != nil {
		return fmt.Errorf("failed to roll out Deployment %s: %w", key, err)
	}
	if progressing, why := health.IsDeploymentProgressing(deployment); progressing {
		return fmt.Errorf("failed to roll out Deployment %s: %s", key, why)
	}
	return nil
}

// Remove removes the Server from the shoot's namespace, when the resource manager there answers. What it shares with
// that stays. The secret of its access is the secrets manager's: the gardenlet's next run removes it.
func Remove(ctx context.Context, seed client.Client, namespace string) error {
	for _, object := range []client.Object{
		&appsv1.Deployment{}, &corev1.ConfigMap{}, &rbacv1.RoleBinding{}, &rbacv1.Role{}, &corev1.ServiceAccount{},
	} {
		object.SetNamespace(namespace)
		object.SetName(name)
		err := seed.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete %T %s/%s: %w", object, namespace, name, err)
		}
	}
	return nil
}

// Permit lets the pods of both seeds read in the shoot what the webhooks' answers depend on, and what a resource
// manager keeps an index of.
func Permit(ctx context.Context, shoot client.Client) error {
	role := &rbacv1.ClusterRole{ObjectMeta: objectMeta("")}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: objectMeta("")}
	for object, mutate := range map[client.Object]func(){
		role: func() {
			role.Rules = []rbacv1.PolicyRule{
				{APIGroups: []string{corev1.GroupName}, Verbs: reading(),
					Resources: []string{"namespaces", "nodes", "pods", "serviceaccounts", "services"}},
				{APIGroups: []string{"autoscaling"}, Verbs: reading(), Resources: []string{"horizontalpodautoscalers"}},
				{APIGroups: []string{"certificates.k8s.io"}, Verbs: reading(),
					Resources: []string{"certificatesigningrequests"}},
			}
		},
		binding: func() {
			binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
			binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
		},
	} {
		if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, shoot, object, func() error {
			mutate()
			return nil
		}); err != nil {
			return fmt.Errorf("failed to write %T %s into the shoot: %w", object, name, err)
		}
	}
	return nil
}

// Revoke is the end of Permit. It can be called without it.
func Revoke(ctx context.Context, shoot client.Client) error {
	for _, object := range []client.Object{
		&rbacv1.ClusterRoleBinding{ObjectMeta: objectMeta("")}, &rbacv1.ClusterRole{ObjectMeta: objectMeta("")},
	} {
		if err := shoot.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete %T %s from the shoot: %w", object, name, err)
		}
	}
	return nil
}

// reading are the verbs of a cache.
func reading() []string { return []string{"get", "list", "watch"} }

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

const namespace = "shoot--demo--live"

// seed plays a seed: what etcd-druid has made of the two Etcds, etcd-druid's webhook, and the controllers of
// EndpointSlices and Deployments.
type seed struct {
	client.Client
	// lock is for what several may change at the same time.
	lock sync.Mutex
	// denied is how many changes of a service the webhook still refuses, because it has not seen the annotation yet.
	denied int
	// changed is how often somebody has changed the selector of a service.
	changed int
	// frozen are services whose EndpointSlices do not follow.
	frozen map[string]bool
	// looks counts what was read.
	looks atomic.Int64
}

func newSeed(ctx context.Context) *seed {
	GinkgoHelper()
	s := &seed{frozen: map[string]bool{}}
	s.Client = fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
				opts ...client.PatchOption) error {
				return s.admit(ctx, object, func() error { return c.Patch(ctx, object, patch, opts...) })
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				opts ...client.ListOption) error {
				s.looks.Add(1)
				return c.List(ctx, list, opts...)
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
				opts ...client.GetOption) error {
				s.looks.Add(1)
				return c.Get(ctx, key, object, opts...)
			}}).Build()
	ca, pair := certificates()
	for name, data := range map[string]map[string][]byte{
		"ca-etcd-bundle-1": {"bundle.crt": ca.CertificatePEM},
		"etcd-client-1":    {"tls.crt": pair.CertificatePEM, "tls.key": pair.PrivateKeyPEM},
		"etcd-server-main": {"tls.crt": pair.CertificatePEM, "tls.key": pair.PrivateKeyPEM},
		// Each etcd has its own one.
		"etcd-server-events": {"tls.crt": pair.CertificatePEM, "tls.key": pair.PrivateKeyPEM},
	} {
		Expect(s.Create(ctx, &corev1.Secret{ObjectMeta: meta(name), Data: data})).To(Succeed())
	}
	for i, etcdRole := range naming.EtcdRoles {
		Expect(s.Create(ctx, &druidcorev1alpha1.Etcd{ObjectMeta: meta("etcd-" + etcdRole),
			Spec: druidcorev1alpha1.EtcdSpec{Replicas: 3, Etcd: druidcorev1alpha1.EtcdConfig{
				ClientUrlTLS: &druidcorev1alpha1.TLSConfig{
					TLSCASecretRef: druidcorev1alpha1.SecretReference{DataKey: new("bundle.crt"),
						SecretReference: corev1.SecretReference{Name: "ca-etcd-bundle-1"}},
					ServerTLSSecretRef: corev1.SecretReference{Name: "etcd-server-" + etcdRole},
					ClientTLSSecretRef: corev1.SecretReference{Name: "etcd-client-1"},
				}}}})).To(Succeed())
		for ordinal := range 3 {
			Expect(s.Create(ctx, readyPod(fmt.Sprintf("etcd-%s-%d", etcdRole, ordinal),
				fmt.Sprintf("10.1.%d.%d", i, ordinal), members(etcdRole)))).To(Succeed())
		}
		Expect(s.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-" + etcdRole + "-client",
				Labels: map[string]string{"app.kubernetes.io/managed-by": "etcd-druid",
					"app.kubernetes.io/part-of": "etcd-" + etcdRole}},
			Spec: corev1.ServiceSpec{Selector: members(etcdRole)},
		})).To(Succeed())
		s.publish(ctx, "etcd-"+etcdRole+"-client")
	}
	return s
}

// certificates are an authority and a certificate of it, made once.
var certificates = sync.OnceValues(func() (ca, pair *secretsutils.Certificate) {
	ca, err := (&secretsutils.CertificateSecretConfig{Name: "ca", CommonName: "ca",
		CertType: secretsutils.CACert}).GenerateCertificate()
	Expect(err).NotTo(HaveOccurred())
	pair, err = (&secretsutils.CertificateSecretConfig{Name: "pair", CommonName: "pair",
		CertType: secretsutils.ServerClientCert, SigningCA: ca}).GenerateCertificate()
	Expect(err).NotTo(HaveOccurred())
	return ca, pair
})

// admit plays the webhook, and the controller of EndpointSlices.
func (s *seed) admit(ctx context.Context, object client.Object, patch func() error) error {
	service, ok := object.(*corev1.Service)
	if !ok || service.Labels["app.kubernetes.io/managed-by"] != "etcd-druid" {
		return patch()
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	etcd := &druidcorev1alpha1.Etcd{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: namespace,
		Name: service.Labels["app.kubernetes.io/part-of"]}, etcd); err != nil {
		return err
	}
	_, lifted := etcd.Annotations["druid.gardener.cloud/disable-etcd-component-protection"]
	if !lifted || s.denied > 0 {
		s.denied--
		return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, service.Name, nil)
	}
	if err := patch(); err != nil {
		return err
	}
	s.changed++
	s.publish(ctx, service.Name)
	return nil
}

// publish writes the EndpointSlice of a service.
func (s *seed) publish(ctx context.Context, name string) {
	GinkgoHelper()
	if s.frozen[name] {
		return
	}
	service, pods := &corev1.Service{ObjectMeta: meta(name)}, &corev1.PodList{}
	Expect(s.Get(ctx, client.ObjectKeyFromObject(service), service)).To(Succeed())
	Expect(s.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(service.Spec.Selector))).To(Succeed())
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta(name + "-x")}
	Expect(client.IgnoreNotFound(s.Delete(ctx, slice))).To(Succeed())
	slice = &discoveryv1.EndpointSlice{ObjectMeta: meta(name + "-x")}
	slice.Labels = map[string]string{"kubernetes.io/service-name": name}
	for _, pod := range pods.Items {
		ready := len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{pod.Status.PodIP},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: pod.Name}})
	}
	Expect(s.Create(ctx, slice)).To(Succeed())
}

// druidReconciles plays what etcd-druid does with the service. Others may change it as soon as it has.
func (s *seed) druidReconciles(ctx context.Context, etcdRole string) {
	GinkgoHelper()
	s.lock.Lock()
	defer s.lock.Unlock()
	service := &corev1.Service{ObjectMeta: meta("etcd-" + etcdRole + "-client")}
	Expect(s.Get(ctx, client.ObjectKeyFromObject(service), service)).To(Succeed())
	service.Spec.Selector = members(etcdRole)
	Expect(s.Update(ctx, service)).To(Succeed())
	s.publish(ctx, service.Name)
}

func readyPod(name, address string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// runFronts makes the pods of the Deployments, and says that they are ready.
func (s *seed) runFronts(ctx context.Context) {
	GinkgoHelper()
	for i, etcdRole := range naming.EtcdRoles {
		deployment := &appsv1.Deployment{ObjectMeta: meta("livecpm-front-" + etcdRole)}
		Expect(s.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		for n := range int(*deployment.Spec.Replicas) {
			Expect(s.Create(ctx, readyPod(fmt.Sprintf("%s-%d", deployment.Name, n), fmt.Sprintf("10.2.%d.%d", i, n),
				deployment.Spec.Template.Labels))).To(Succeed())
		}
		deployment.Status = appsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2,
			AvailableReplicas: 2, Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}}}
		Expect(s.Status().Update(ctx, deployment)).To(Succeed())
	}
}

// stopFronts deletes the pods of a Deployment that is gone.
func (s *seed) stopFronts(ctx context.Context) {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(s.List(ctx, pods, client.MatchingLabels{"app": "livecpm-front"})).To(Succeed())
	for _, pod := range pods.Items {
		Expect(s.Delete(ctx, &pod)).To(Succeed())
	}
}

func (s *seed) selector(ctx context.Context, etcdRole string) map[string]string {
	GinkgoHelper()
	service := &corev1.Service{ObjectMeta: meta("etcd-" + etcdRole + "-client")}
	Expect(s.Get(ctx, client.ObjectKeyFromObject(service), service)).To(Succeed())
	return service.Spec.Selector
}

// members is how etcd-druid v0.38.1 selects the pods of an Etcd for the service for clients.
func members(etcdRole string) map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "etcd-druid",
		"app.kubernetes.io/part-of": "etcd-" + etcdRole, "app.kubernetes.io/component": "etcd-statefulset"}
}

func fronts(etcdRole string) map[string]string {
	return map[string]string{"app": "livecpm-front", "role": etcdRole}
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

var now = time.Date(2026, 11, 25, 4, 0, 0, 0, time.UTC)

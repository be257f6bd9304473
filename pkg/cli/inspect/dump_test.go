// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
)

var _ = Describe("Dump", func() {
	var (
		ctx      = context.Background()
		timeline inspect.Timeline
		listed   []client.ObjectList
		refuse   bool
	)

	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}

	BeforeEach(func() {
		listed, refuse = nil, false
		shoot := &gardencorev1beta1.Shoot{ObjectMeta: in("garden-demo", "live"),
			Status: gardencorev1beta1.ShootStatus{TechnicalID: "shoot--demo--live"}}
		shoot.Annotations = map[string]string{"example.org/token": "hidden"}
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
			WithIndex(&corev1.Event{}, "involvedObject.name", func(client.Object) []string { return nil }).Build()
		seed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
			&corev1.Namespace{ObjectMeta: in("", "shoot--demo--live")},
			&druidcorev1alpha1.Etcd{ObjectMeta: in("shoot--demo--live", "etcd-main")},
			&druidcorev1alpha1.Etcd{ObjectMeta: in("shoot--demo--dead", "etcd-of-another")},
			&extensionsv1alpha1.DNSRecord{ObjectMeta: in("shoot--demo--live", "external")},
			&appsv1.Deployment{ObjectMeta: in("garden", "gardenlet")},
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "livecpm-agent",
				Labels: map[string]string{"app": "livecpm"}},
				Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "agent",
						Env: []corev1.EnvVar{{Name: "X", Value: "hidden"}}}}}}}},
			&corev1.Secret{ObjectMeta: in("shoot--demo--live", "ca"), Data: map[string][]byte{"x": []byte("hidden")}},
			&corev1.ConfigMap{ObjectMeta: in("shoot--demo--live", "config"), Data: map[string]string{"x": "hidden"}},
		).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch,
			list client.ObjectList, options ...client.ListOption) error {
			listed = append(listed, list)
			if _, ok := list.(*druidcorev1alpha1.EtcdList); ok && refuse {
				return errors.New("forbidden")
			}
			return c.List(ctx, list, options...)
		}}).Build()
		timeline = inspect.Timeline{Garden: &access.Garden{Client: garden, Namespace: "garden-demo"}, Shoot: shoot,
			Seeds: access.Seeds{"seed-a": {Reader: seed, Logs: logs{}}},
			Since: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	})

	collect := func(seeds ...string) (map[string]string, error) {
		dump := &inspect.Dump{}
		dump.Installation(soundInstallation())
		dump.Migration(ctx, timeline, seeds...)
		files, err := dump.Files()
		out := map[string]string{}
		for _, file := range files {
			Expect(out).NotTo(HaveKey(file.Name))
			out[file.Name] = string(file.Content)
		}
		return out, err
	}

	It("should have what a bug report needs, of this shoot alone, and nothing secret", func() {
		files, err := collect("seed-a")
		Expect(err).NotTo(HaveOccurred())
		for name, content := range map[string]string{
			"version.yaml": "plugin", "check.yaml": "AgentAlive", "garden/gate.yaml": "livecpm-gate",
			"garden/seeds/seed-b.yaml": "kind: Seed", "garden/shoot.yaml": "kind: Shoot",
			"seeds/seed-a/namespace.yaml": "kind: Namespace", "seeds/seed-a/etcds.yaml": "kind: Etcd",
			"seeds/seed-a/dnsrecords.yaml": "kind: DNSRecord", "seeds/seed-a/agent.yaml": "name: livecpm-agent",
		} {
			Expect(files).To(HaveKeyWithValue(name, ContainSubstring(content)))
		}
		Expect(files).To(And(HaveKey("events.txt"), HaveKey("logs.txt"), Not(HaveKey("MISSING"))))
		for name, content := range files {
			Expect(content).NotTo(Or(ContainSubstring("hidden"), ContainSubstring("of-another"),
				ContainSubstring("name: gardenlet")), name)
		}
		Expect(listed).NotTo(ContainElement(Or(BeAssignableToTypeOf(&corev1.SecretList{}),
			BeAssignableToTypeOf(&corev1.ConfigMapList{}))))
	})

	It("should say what is missing, also in the archive", func() {
		refuse = true
		files, err := collect("seed-a", "seed-b")
		Expect(err).To(MatchError(And(ContainSubstring("seed seed-a: failed to list etcds"),
			ContainSubstring("seed seed-b: no access"))))
		Expect(files).To(HaveKeyWithValue("MISSING", And(ContainSubstring("failed to list etcds"),
			ContainSubstring("seed-b=PATH"))))
		Expect(files).To(And(HaveKey("seeds/seed-a/dnsrecords.yaml"), Not(HaveKey("seeds/seed-a/etcds.yaml"))))
	})
})

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The initial cluster of the source's etcds", func() {
	const former = "initial-cluster: seed-a-etcd-main-0=https://etcd-main-0.etcd-main-peer.shoot--demo--live.svc:2380\n"

	var (
		ctx     = context.Background()
		objects = func() []client.Object {
			var all []client.Object
			for _, name := range []string{"etcd-main", "etcd-events"} {
				all = append(all,
					&druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-config"},
						Data: map[string]string{"etcd.conf.yaml": former}})
			}
			return all
		}
		in = func(number int) *migration.Migration {
			return &migration.Migration{
				Log: logr.Discard(), Clock: clock.RealClock{}, Role: steps.Source, Step: steps.Table()[number-1],
				SourceSeed: "seed-a", DestinationSeed: "seed-b",
				Shoot: &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}},
			}
		}
	)

	DescribeTable("is kept", func(number int, kept bool) {
		deps := newDeps(objects()...)
		source.KeepInitialCluster(ctx, deps, in(number))
		for _, name := range []string{"etcd-main-config", "etcd-events-config"} {
			configMap := &corev1.ConfigMap{}
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, configMap)).
				To(Succeed())
			if kept {
				Expect(configMap.Data["etcd.conf.yaml"]).To(ContainSubstring(",seed-b-etcd-"))
			} else {
				Expect(configMap.Data["etcd.conf.yaml"]).To(Equal(former))
			}
		}
	},
		Entry("not in step 1, which does it itself", 1, false),
		Entry("in step 2", 2, true),
		Entry("in step 3", 3, true),
		Entry("in step 4", 4, true),
		Entry("in step 5", 5, true),
		Entry("in step 6", 6, true),
		Entry("not in step 7, which deletes the etcds", 7, false),
		Entry("not in step 8", 8, false),
	)

	DescribeTable("names the other only member late", func(number int, named bool) {
		deps := newDeps(objects()...)
		m := in(number)
		m.Shoot.Annotations = map[string]string{steps.AnnotationWithGap: "true"}
		source.KeepInitialCluster(ctx, deps, m)
		configMap := &corev1.ConfigMap{}
		Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-config"},
			configMap)).To(Succeed())
		if !named {
			Expect(configMap.Data["etcd.conf.yaml"]).To(Equal(former))
			return
		}
		Expect(configMap.Data["etcd.conf.yaml"]).To(HaveSuffix(
			",seed-b-etcd-main-0=http://etcd-main-0.etcd-main-peer.shoot--demo--live.svc:2381\n"))
	},
		Entry("not in step 4", 4, false),
		Entry("not in step 5, which does it itself at its end", 5, false),
		Entry("in step 6", 6, true),
		Entry("not in step 7", 7, false),
	)

	It("should not be waited for", func() {
		// There is nothing to keep it in.
		source.KeepInitialCluster(ctx, newDeps(), in(3))
	})
})

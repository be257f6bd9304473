// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"context"
	"errors"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

func noExtensions(context.Context, *gardencorev1beta1.Shoot) ([]string, error) { return nil, nil }

var _ = Describe("Extensions that restrict access", func() {
	// accessControl judges a shoot with the extensions "acl" and "other". The agents of both seeds have published that
	// they take "acl" and "firewall" for access control.
	accessControl := func(change func(*preflight.Facts)) preflight.Finding {
		GinkgoHelper()
		w := fit()
		w.ExtensionsRead, w.Extensions = true, []string{"acl", "other"}
		for _, seed := range []*gardencorev1beta1.Seed{w.Source.Seed, w.Destination.Seed} {
			seed.Annotations = map[string]string{seedfacts.AnnotationAccessControl: "acl,firewall"}
		}
		change(&w)
		return find(preflight.Evaluate(w), preflight.AccessControl)
	}
	withWorkers := func(w *preflight.Facts) {
		fit := fitWithWorkers()
		w.Shoot.Spec.Provider, w.Shoot.Spec.Networking = fit.Shoot.Spec.Provider, fit.Shoot.Spec.Networking
	}
	published := func(seed preflight.SeedView, value string) {
		seed.Seed.Annotations[seedfacts.AnnotationAccessControl] = value
	}

	DescribeTable("are no obstacle", func(evidence string, change func(*preflight.Facts)) {
		finding := accessControl(change)
		Expect(finding.Status).To(Equal(preflight.Pass))
		Expect(finding.Evidence).To(Equal(evidence))
	},
		Entry("where the destination has them in force in time",
			"the extension acl is in force in the destination before the kube-apiserver can be reached",
			func(*preflight.Facts) {}),
		Entry("if the shoot has none of them", "no extension of the shoot restricts access to its kube-apiserver",
			func(w *preflight.Facts) { w.Extensions = []string{"other"} }),
		Entry("if the shoot has none of them, with workers",
			"no extension of the shoot restricts access to its kube-apiserver", func(w *preflight.Facts) {
				withWorkers(w)
				w.Extensions = []string{"other"}
			}),
		Entry("if the shoot has no extensions, whatever the agents have published", "the shoot has no extensions",
			func(w *preflight.Facts) {
				w.Extensions = nil
				w.Destination.Seed.Annotations = nil
			}),
		Entry("if the Shoot has turned it off, where nobody reads what is enabled for all",
			"the shoot has no extensions", func(w *preflight.Facts) {
				w.ExtensionsRead, w.Extensions = false, nil
				w.Shoot.Spec.Extensions = []gardencorev1beta1.Extension{{Type: "acl", Disabled: new(true)}}
			}),
		Entry("if both agents take none for such a one",
			"no extension of the shoot restricts access to its kube-apiserver", func(w *preflight.Facts) {
				published(w.Source, "")
				published(w.Destination, "")
			}),
	)

	DescribeTable("hold a migration", func(evidence, remedy string, change func(*preflight.Facts)) {
		finding := accessControl(change)
		Expect(finding.Status).To(Equal(preflight.Fail))
		Expect(finding.Evidence).To(Equal(evidence))
		Expect(finding.Remedy).To(And(ContainSubstring(remedy),
			ContainSubstring("controllers.liveMigration.accessControlExtensions")))
		Expect(finding.Reason).To(Equal(steps.ReasonAccessControlUnfit))
	},
		Entry("of a shoot with workers", "the shoot has workers, and its access is restricted by the extension acl, "+
			"which cannot be in force in the destination before the kube-apiserver can be reached there",
			"migrate classically", withWorkers),
		Entry("of a shoot with workers, by what the Shoot names", "the shoot has workers, and its access is "+
			"restricted by the extension acl, which cannot be in force in the destination before the kube-apiserver "+
			"can be reached there", "migrate classically", func(w *preflight.Facts) {
			withWorkers(w)
			w.ExtensionsRead, w.Extensions = false, nil
			w.Shoot.Spec.Extensions = []gardencorev1beta1.Extension{{Type: "acl"}}
		}),
		Entry("to an agent that does not know of it", "only the agent of seed seed-a takes the extension acl for "+
			"one that restricts access to the kube-apiserver", "the same list",
			func(w *preflight.Facts) { published(w.Destination, "firewall") }),
		Entry("from an agent that does not know of it", "only the agent of seed seed-b takes the extension acl for "+
			"one that restricts access to the kube-apiserver", "the same list",
			func(w *preflight.Facts) { published(w.Source, "") }),
	)

	DescribeTable("hold if it is not known", func(evidence string, change func(*preflight.Facts)) {
		finding := accessControl(change)
		Expect(finding.Status).To(Equal(preflight.Unknown))
		Expect(finding.Evidence).To(ContainSubstring(evidence))
		Expect(finding.Remedy).NotTo(BeEmpty())
	},
		Entry("which extensions the shoot has", "could not be read: forbidden",
			func(w *preflight.Facts) { w.ExtensionsError = errors.New("forbidden") }),
		Entry("what the source's agent takes for one", "the agent of seed seed-a has not published",
			func(w *preflight.Facts) { w.Source.Seed.Annotations = nil }),
		Entry("what the destination's agent takes for one", "the agent of seed seed-b has not published",
			func(w *preflight.Facts) { w.Destination.Seed.Annotations = nil }),
		Entry("what a seed that cannot be read says", "seed seed-b could not be read",
			func(w *preflight.Facts) { w.Destination = preflight.SeedView{Name: "seed-b", Error: errors.New("no")} }),
	)
})

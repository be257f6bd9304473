// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"errors"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// exposed lets the shoot ask for an ExposureClass.
func exposed(w *preflight.Facts) {
	w.Shoot.Spec.ExposureClassName = new("private")
	w.ExposureClass = &gardencorev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: "private"},
		Handler: "intranet"}
}

// published lets the agent of the destination have published the value.
func published(w *preflight.Facts, value string) {
	metav1.SetMetaDataAnnotation(&w.Destination.Seed.ObjectMeta, seedfacts.AnnotationExposureClassHandlers, value)
}

// handling gives the gardenlet of the checker's own seed the handlers.
func handling(w *preflight.Facts, handlers ...string) {
	for _, name := range handlers {
		w.Gardenlet.ExposureClassHandlers = append(w.Gardenlet.ExposureClassHandlers,
			gardenletconfigv1alpha1.ExposureClassHandler{Name: name})
	}
}

var _ = Describe("The ExposureClass of a shoot", func() {
	DescribeTable("and the handlers of the destination",
		func(status preflight.Status, evidence string, change func(*preflight.Facts)) {
			w := fit()
			exposed(&w)
			change(&w)
			findings := preflight.Evaluate(w)
			finding := find(findings, preflight.ExposureClass)
			Expect(finding.Evidence).To(ContainSubstring(evidence))
			Expect(finding.Status).To(Equal(status))
			if status == preflight.Pass {
				Expect(preflight.Obstacles(findings)).To(BeEmpty())
				return
			}
			Expect(preflight.Obstacles(findings)).To(HaveLen(1), "nothing else is to be blamed")
			Expect(finding.Remedy).NotTo(BeEmpty())
			reason, _ := preflight.Verdict(findings)
			Expect(reason).To(Equal(map[preflight.Status]steps.Reason{
				preflight.Fail:    steps.ReasonExposureClassNotHandled,
				preflight.Unknown: steps.ReasonPrerequisitesUnknown,
			}[status]))
		},
		Entry("none asked for, in a seed whose agent has published nothing", preflight.Pass,
			"asks for no ExposureClass",
			func(w *preflight.Facts) { w.Shoot.Spec.ExposureClassName, w.ExposureClass = nil, nil }),
		Entry("the handler is there", preflight.Pass, "seed seed-b has handler intranet of ExposureClass private",
			func(w *preflight.Facts) { published(w, `["dmz","intranet"]`) }),
		Entry("a handler with the name of the class only", preflight.Fail,
			"asks for handler intranet, and the gardenlet of seed seed-b has only private",
			func(w *preflight.Facts) { published(w, `["private"]`) }),
		Entry("others only", preflight.Fail, "has only dmz, internet: the API server would be exposed at the default",
			func(w *preflight.Facts) { published(w, `["dmz","internet"]`) }),
		Entry("no handler at all", preflight.Fail, "has no handlers",
			func(w *preflight.Facts) { published(w, `[]`) }),
		Entry("the source has it, which does not help", preflight.Fail, "has no handlers",
			func(w *preflight.Facts) { published(w, `[]`); handling(w, "intranet") }),
		Entry("nothing published", preflight.Unknown, "the agent of seed seed-b has not published",
			func(*preflight.Facts) {}),
		Entry("something else published", preflight.Unknown, `"intranet" is no JSON list`,
			func(w *preflight.Facts) { published(w, "intranet") }),
		Entry("the class cannot be read", preflight.Unknown, "ExposureClass private could not be read: forbidden",
			func(w *preflight.Facts) {
				published(w, `["intranet"]`)
				w.ExposureClass, w.ExposureClassError = nil, errors.New("forbidden")
			}),
		Entry("the destination's own gardenlet has it, whatever its Seed says", preflight.Pass,
			"seed seed-b has handler",
			func(w *preflight.Facts) {
				w.OwnSeed = "seed-b"
				published(w, `[]`)
				handling(w, "intranet")
			}),
		Entry("the destination's own gardenlet has it no longer", preflight.Fail, "has only dmz",
			func(w *preflight.Facts) {
				w.OwnSeed = "seed-b"
				published(w, `["intranet"]`)
				handling(w, "dmz")
			}),
	)

	It("should be told of handlers in one order, and of none as of an empty list", func() {
		w := fit()
		handling(&w, "b", "a")
		Expect(preflight.HandlerNames(w.Gardenlet)).To(Equal([]string{"a", "b"}))
		for value, names := range map[string][]string{`["a","b"]`: {"a", "b"}, `[]`: nil} {
			Expect(seedfacts.FormatHandlers(names)).To(Equal(value))
			parsed, err := seedfacts.ParseHandlers(value)
			Expect(err).NotTo(HaveOccurred())
			Expect(parsed).To(HaveLen(len(names)))
		}
	})
})

var _ = Describe("IP families", func() {
	const (
		v4 = gardencorev1beta1.IPFamilyIPv4
		v6 = gardencorev1beta1.IPFamilyIPv6
	)
	type list = []gardencorev1beta1.IPFamily

	DescribeTable("of the seeds", func(source, destination list, status preflight.Status, evidence string) {
		w := fit()
		w.Source.Seed.Spec.Networks.IPFamilies, w.Destination.Seed.Spec.Networks.IPFamilies = source, destination
		findings := preflight.Evaluate(w)
		finding := find(findings, preflight.IPFamilies)
		Expect(finding.Evidence).To(Equal(evidence))
		Expect(finding.Status).To(Equal(status))
		reason, _ := preflight.Verdict(findings)
		if status == preflight.Pass {
			Expect(reason).To(BeEmpty())
			return
		}
		Expect(reason).To(Equal(steps.ReasonIPFamiliesDiffer))
		Expect(finding.Remedy).To(ContainSubstring("choose a destination with the same IP families"))
	},
		Entry("IPv4 by default", nil, nil, preflight.Pass, "both seeds have IPv4"),
		Entry("IPv4 by default and said", nil, list{v4}, preflight.Pass, "both seeds have IPv4"),
		Entry("IPv6", list{v6}, list{v6}, preflight.Pass, "both seeds have IPv6"),
		Entry("both", list{v6, v4}, list{v6, v4}, preflight.Pass, "both seeds have IPv6 and IPv4"),
		Entry("IPv4 to IPv6", nil, list{v6}, preflight.Fail, "seed seed-a has IPv4, seed seed-b has IPv6"),
		Entry("IPv4 to both", list{v4}, list{v4, v6}, preflight.Fail,
			"seed seed-a has IPv4, seed seed-b has IPv4 and IPv6"),
		Entry("both to IPv6", list{v4, v6}, list{v6}, preflight.Fail,
			"seed seed-a has IPv4 and IPv6, seed seed-b has IPv6"),
		Entry("both, another one first", list{v4, v6}, list{v6, v4}, preflight.Fail,
			"seed seed-a has IPv4 and IPv6, seed seed-b has IPv6 and IPv4"),
	)
})

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"context"
	"errors"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// fitWithWorkers returns a world with two settled worker pools in which every check passes.
func fitWithWorkers() preflight.Facts {
	w := fit()
	for _, seed := range []*gardencorev1beta1.Seed{w.Source.Seed, w.Destination.Seed} {
		metav1.SetMetaDataAnnotation(&seed.ObjectMeta, seedfacts.AnnotationWorkers, "true")
	}
	w.MachinesRead = true
	w.Shoot.Generation, w.Shoot.Status.ObservedGeneration = 8, 7
	w.TLSEndsRead, w.TLSEndsAtGateway = true, true
	metav1.SetMetaDataAnnotation(&w.Destination.Seed.ObjectMeta, seedfacts.AnnotationTLSTermination, "true")
	w.Shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "a"}, {Name: "b"}}
	w.Shoot.Spec.Networking = &gardencorev1beta1.Networking{Nodes: new("10.250.0.0/16")}
	for _, pool := range []string{"a", "b"} {
		deployment := machinev1alpha1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Name: "pool-" + pool, Generation: 3},
		}
		deployment.Spec.Replicas = 2
		deployment.Status = machinev1alpha1.MachineDeploymentStatus{ObservedGeneration: 3, Replicas: 2,
			UpdatedReplicas: 2, AvailableReplicas: 2}
		w.Machines.Deployments = append(w.Machines.Deployments, deployment)
		for _, ordinal := range []string{"x", "y"} {
			machine := machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine-" + pool + ordinal}}
			machine.Status.CurrentStatus.Phase = machinev1alpha1.MachineRunning
			w.Machines.Machines = append(w.Machines.Machines, machine)
		}
	}
	return w
}

var _ = Describe("Shoots with workers", func() {
	It("should be fit if both agents permit them and all is settled", func() {
		findings := preflight.Evaluate(fitWithWorkers())
		Expect(preflight.Obstacles(findings)).To(BeEmpty())
		Expect(find(findings, preflight.Workers).Evidence).
			To(Equal("the shoot has 2 worker pools, and the agent of seed seed-a permits that"))
		Expect(find(findings, preflight.WorkersInDestination).Evidence).
			To(Equal("the agent of seed seed-b permits shoots with workers"))
		Expect(find(findings, preflight.Machines).Evidence).To(Equal("4 machines are settled"))
		Expect(find(findings, preflight.SpecReconciled).Status).To(Equal(preflight.Pass))
	})

	DescribeTable("are warned of a VPN that nobody has tried, and go with it",
		func(annotation string, expected preflight.Status) {
			w := fitWithWorkers()
			metav1.SetMetaDataAnnotation(&w.Shoot.ObjectMeta, v1beta1constants.ShootAlphaControlPlaneHAVPN, annotation)
			findings := preflight.Evaluate(w)
			Expect(find(findings, preflight.VPN).Status).To(Equal(expected))
			Expect(preflight.Obstacles(findings)).To(BeEmpty())
		},
		Entry("with one server", "false", preflight.Pass),
		Entry("highly available", "true", preflight.Warn),
		Entry("highly available, as the control plane is", "", preflight.Warn),
	)

	DescribeTable("are refused",
		func(change func(*preflight.Facts), name preflight.Name, reason steps.Reason, evidence string) {
			w := fitWithWorkers()
			change(&w)
			findings := preflight.Evaluate(w)
			finding := find(findings, name)
			Expect(finding.Status).To(Equal(preflight.Fail))
			Expect(finding.Evidence).To(ContainSubstring(evidence))
			Expect(finding.Remedy).NotTo(BeEmpty())
			actual, _ := preflight.Verdict(findings)
			Expect(actual).To(Equal(reason))
		},
		Entry("where the agent of the source does not permit them", func(w *preflight.Facts) {
			w.Source.Seed.Annotations[seedfacts.AnnotationWorkers] = "false"
		}, preflight.Workers, steps.ReasonWorkersNotSupported, "the agent of seed seed-a does not migrate"),
		Entry("where that of the destination does not", func(w *preflight.Facts) {
			w.Destination.Seed.Annotations[seedfacts.AnnotationWorkers] = "false"
		}, preflight.WorkersInDestination, steps.ReasonWorkersNotSupported, "agent of seed seed-b does not migrate"),
		Entry("if the agent that looks does not, whatever it has published before its restart",
			func(w *preflight.Facts) { w.ForbidsWorkers = true },
			preflight.Workers, steps.ReasonWorkersNotSupported, "the agent of seed seed-a does not migrate"),
		Entry("if the agent of the destination looks and does not", func(w *preflight.Facts) {
			w.OwnSeed, w.ForbidsWorkers = "seed-b", true
		}, preflight.WorkersInDestination, steps.ReasonWorkersNotSupported, "agent of seed seed-b does not migrate"),
		Entry("if their users refuse", func(w *preflight.Facts) {
			metav1.SetMetaDataAnnotation(&w.Shoot.ObjectMeta, steps.AnnotationWithWorkers, "false")
		}, preflight.Workers, steps.ReasonWorkersNotSupported, `live-migrate-with-workers is "false"`),
		Entry("if their users refuse in words of their own", func(w *preflight.Facts) {
			metav1.SetMetaDataAnnotation(&w.Shoot.ObjectMeta, steps.AnnotationWithWorkers, "never")
		}, preflight.Workers, steps.ReasonWorkersNotSupported, `live-migrate-with-workers is "never"`),
		Entry("if they host their own control plane", func(w *preflight.Facts) {
			w.Shoot.Spec.Provider.Workers[0].ControlPlane = &gardencorev1beta1.WorkerControlPlane{}
		}, preflight.Workers, steps.ReasonWorkersNotSupported, "on its own workers"),
		Entry("without a range of nodes", func(w *preflight.Facts) { w.Shoot.Spec.Networking.Nodes = nil },
			preflight.Workers, steps.ReasonWorkersNotSupported, "spec.networking.nodes"),
		Entry("with a change that waits for the maintenance time window", func(w *preflight.Facts) {
			w.Shoot.Generation++
		},
			preflight.SpecReconciled, steps.ReasonShootNotReconciled, "changed 2 times"),
		Entry("while scaling up", func(w *preflight.Facts) { w.Machines.Deployments[0].Spec.Replicas = 3 },
			preflight.Machines, steps.ReasonMachinesNotSettled,
			"MachineDeployment pool-a is scaling from 2 to 3 machines"),
		Entry("while scaling down", func(w *preflight.Facts) { w.Machines.Deployments[1].Spec.Replicas = 1 },
			preflight.Machines, steps.ReasonMachinesNotSettled,
			"MachineDeployment pool-b is scaling from 2 to 1 machines"),
		Entry("while rolling", func(w *preflight.Facts) { w.Machines.Deployments[0].Status.UpdatedReplicas = 1 },
			preflight.Machines, steps.ReasonMachinesNotSettled,
			"MachineDeployment pool-a is rolling: 1 of 2 machines are up to date"),
		Entry("with a change that nobody has looked at", func(w *preflight.Facts) {
			w.Machines.Deployments[0].Generation = 4
		},
			preflight.Machines, steps.ReasonMachinesNotSettled, "has not been reconciled"),
		Entry("while a pool is being deleted", func(w *preflight.Facts) {
			w.Machines.Deployments[0].DeletionTimestamp = &metav1.Time{}
		},
			preflight.Machines, steps.ReasonMachinesNotSettled, "MachineDeployment pool-a is being deleted"),
		Entry("with a machine in creation", func(w *preflight.Facts) {
			w.Machines.Machines[0].Status.CurrentStatus.Phase = machinev1alpha1.MachinePending
		}, preflight.Machines, steps.ReasonMachinesNotSettled, `Machine machine-ax is "Pending"`),
		Entry("with a failed machine", func(w *preflight.Facts) {
			w.Machines.Machines[1].Status.CurrentStatus.Phase = machinev1alpha1.MachineFailed
		}, preflight.Machines, steps.ReasonMachinesNotSettled, `Machine machine-ay is "Failed"`),
		Entry("with a machine that cannot be created", func(w *preflight.Facts) {
			w.Machines.Machines[1].Status.CurrentStatus.Phase = machinev1alpha1.MachineCrashLoopBackOff
		}, preflight.Machines, steps.ReasonMachinesNotSettled, `Machine machine-ay is "CrashLoopBackOff"`),
		Entry("with a machine being deleted", func(w *preflight.Facts) {
			w.Machines.Machines[3].DeletionTimestamp = &metav1.Time{}
		},
			preflight.Machines, steps.ReasonMachinesNotSettled, "Machine machine-by is being deleted"),
		Entry("with a machine being updated in place", func(w *preflight.Facts) {
			w.Machines.Machines[0].Status.CurrentStatus.Phase = machinev1alpha1.MachineInPlaceUpdating
		}, preflight.Machines, steps.ReasonMachinesNotSettled, `Machine machine-ax is "InPlaceUpdating"`),
		Entry("with in-place updates that somebody has to begin", func(w *preflight.Facts) {
			w.Shoot.Status.InPlaceUpdates = &gardencorev1beta1.InPlaceUpdatesStatus{
				PendingWorkerUpdates: &gardencorev1beta1.PendingWorkerUpdates{ManualInPlaceUpdate: []string{"b"}},
			}
		}, preflight.Machines, steps.ReasonMachinesNotSettled, "in-place updates are pending in pools b"),
		Entry("while the workers roll for a rotation", func(w *preflight.Facts) {
			w.Shoot.Status.Credentials = &gardencorev1beta1.ShootCredentials{
				Rotation: &gardencorev1beta1.ShootCredentialsRotation{
					CertificateAuthorities: &gardencorev1beta1.CARotation{
						Phase: gardencorev1beta1.RotationWaitingForWorkersRollout,
					},
				}}
		}, preflight.CredentialsRotation, steps.ReasonCredentialsRotationRunning, "WaitingForWorkersRollout"),
		Entry("with a Bastion", func(w *preflight.Facts) { w.Bastions = []string{"ssh"} },
			preflight.Bastions, steps.ReasonBastionExists, "ssh"),
	)

	It("should carry a machine over whose node is not ready", func() {
		w := fitWithWorkers()
		w.Machines.Machines[0].Status.CurrentStatus.Phase = machinev1alpha1.MachineUnknown
		findings := preflight.Evaluate(w)
		Expect(preflight.Obstacles(findings)).To(BeEmpty())
		Expect(find(findings, preflight.Machines).Evidence).
			To(Equal("4 machines are settled, 1 of them with nodes that are not ready"))
	})

	It("should carry a pool without machines over", func() {
		w := fitWithWorkers()
		w.Machines = preflight.MachinesView{
			Deployments: []machinev1alpha1.MachineDeployment{{ObjectMeta: metav1.ObjectMeta{Name: "pool-a"}}},
		}
		Expect(preflight.Obstacles(preflight.Evaluate(w))).To(BeEmpty())
	})

	It("should not take machines that could not be read for settled", func() {
		w := fitWithWorkers()
		w.MachinesError = errors.New("forbidden")
		finding := find(preflight.Evaluate(w), preflight.Machines)
		Expect(finding.Status).To(Equal(preflight.Unknown))
		Expect(finding.Reason).To(Equal(steps.ReasonPrerequisitesUnknown))
	})

	It("should let only the source look at the machines", func() {
		w := fitWithWorkers()
		w.OwnSeed = "seed-b"
		w.Machines.Machines[0].Status.CurrentStatus.Phase = machinev1alpha1.MachineFailed
		w.Shoot.Generation = 20
		for _, finding := range preflight.Evaluate(w) {
			Expect(finding.Name).NotTo(BeElementOf(preflight.Machines, preflight.SpecReconciled))
		}
	})

	Describe("Checker", func() {
		var asked int
		machines := func(context.Context, *gardencorev1beta1.Shoot) (preflight.MachinesView, error) {
			asked++
			return preflight.MachinesView{}, errors.New("no such kind")
		}
		check := func(forbidden bool, w preflight.Facts) []preflight.Finding {
			asked = 0
			reader := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(w.Source.Seed,
				w.Destination.Seed, regions()).Build()
			etcds := func(context.Context, *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
				return w.Etcds, nil
			}
			checker, err := preflight.New(preflight.Options{
				Reader: reader, OwnSeed: "seed-a", Gardenlet: w.Gardenlet, Version: w.Version, Etcds: etcds,
				Protocols:      w.Protocols,
				ForbidsWorkers: forbidden, Machines: machines, Running: rolledOut, Rollout: gardenletRolledOut,
				TLSEndsAtGateway: endsTLS, Extensions: noExtensions,
				Clock: testclock.NewFakePassiveClock(w.Now),
			})
			Expect(err).NotTo(HaveOccurred())
			return checker.Check(context.Background(), w.Shoot)
		}

		It("should look at machines where shoots with workers are permitted", func() {
			Expect(find(check(false, fitWithWorkers()), preflight.Machines).Evidence).
				To(ContainSubstring("no such kind"))
			Expect(asked).To(Equal(1))
		})

		It("should leave them alone otherwise, and for shoots without workers", func() {
			check(true, fitWithWorkers())
			Expect(asked).To(BeZero())
			check(false, fit())
			Expect(asked).To(BeZero())
		})
	})
})

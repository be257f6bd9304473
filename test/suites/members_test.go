// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"context"
	"strings"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
)

const (
	// etcdContainer and sidecarContainer are the containers of a member's pod.
	etcdContainer, sidecarContainer = "etcd", "backup-restore"
	// sidecarChecks is what etcd-backup-restore v0.44.1 logs when it compares the peer URLs, and sidecarStops what it
	// logs right before it stops etcd for them (pkg/server/backuprestoreserver.go, updatePeerURLIfChanged).
	sidecarChecks, sidecarStops = "Checking if peerURL has changed or not.", "Etcd member peerURLs found to be changed."
	// noConfiguration is the last that the stand-in for etcd-wrapper says when it ends before there was an etcd.
	noConfiguration = `msg="failed to start etcd" error="failed to fetch the etcd configuration`
	// lastLines is how much of a container's log a failure quotes.
	lastLines = 5
)

// expectNoMemberRestartedTwice looks at the pods of etcd. They are those with the ordinary specification, for which
// each member restarts once: with a new pod. An etcd that ran in the pod and was stopped there has restarted twice,
// whether its sidecar stopped it or it failed.
//
// A container that ended before its etcd began is not one that restarted twice. etcd-wrapper v0.7.0 and later ends with
// 1 when it could not read its configuration five times, and it often cannot: it ends the context of the request before
// it reads the answer (internal/brclient/brclient.go, createAndExecuteHTTPRequest), which comes in several TLS records.
func expectNoMemberRestartedTwice(ctx context.Context, cfg *config.Config) {
	GinkgoHelper()
	seen := 0
	for _, seed := range cfg.Seeds {
		restConfig, err := apply.RESTConfig(cfg.Kubeconfig(seed.Name))
		Expect(err).NotTo(HaveOccurred())
		logs, err := kubernetes.NewForConfig(restConfig)
		Expect(err).NotTo(HaveOccurred())

		pods := &corev1.PodList{}
		Expect(seedClient(cfg, seed).List(ctx, pods, client.MatchingLabels{
			v1beta1constants.LabelApp: gardeneretcd.LabelAppValue})).To(Succeed())
		for _, pod := range pods.Items {
			seen++
			expectOneStart(ctx, logs, seed.Name, &pod)
		}
	}
	Expect(seen).To(BeNumerically(">=", 2*naming.MembersPerSeed))
}

// expectOneStart checks that the etcd of the pod has been started once.
func expectOneStart(ctx context.Context, logs kubernetes.Interface, seed string, pod *corev1.Pod) {
	GinkgoHelper()
	sidecar := ""
	for _, container := range pod.Status.ContainerStatuses {
		if container.Name != sidecarContainer {
			continue
		}
		// What a container before the last one has logged is gone.
		Expect(container.RestartCount).To(BeNumerically("<=", 1), "the sidecar of %s in %s has restarted: %+v",
			pod.Name, seed, container.LastTerminationState)
		if container.RestartCount > 0 {
			sidecar = logOf(ctx, logs, pod, corev1.PodLogOptions{Container: sidecarContainer, Previous: true})
		}
		sidecar += logOf(ctx, logs, pod, corev1.PodLogOptions{Container: sidecarContainer})
	}
	Expect(sidecar).To(ContainSubstring(sidecarChecks), "the log of the sidecar of %s in %s", pod.Name, seed)
	Expect(sidecar).NotTo(ContainSubstring(sidecarStops), "the sidecar of %s in %s has stopped etcd", pod.Name, seed)

	for _, container := range pod.Status.ContainerStatuses {
		if container.Name != etcdContainer || container.RestartCount == 0 {
			continue
		}
		former := logOf(ctx, logs, pod, corev1.PodLogOptions{Container: etcdContainer, Previous: true})
		Expect(last(former, 1)).To(ContainSubstring(noConfiguration),
			"%s in %s has restarted in its pod %d times: %+v: %s", pod.Name, seed, container.RestartCount,
			container.LastTerminationState, last(former, lastLines))
		GinkgoWriter.Printf("%s in %s began again before its etcd did, %d times: %s\n", pod.Name, seed,
			container.RestartCount, last(former, 1))
	}
}

// logOf reads the log of a container.
func logOf(ctx context.Context, logs kubernetes.Interface, pod *corev1.Pod, options corev1.PodLogOptions) string {
	GinkgoHelper()
	log, err := logs.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &options).DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred(), "the log of %s of %s", options.Container, pod.Name)
	return string(log)
}

// last returns the last lines of a log.
func last(log string, lines int) string {
	all := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/livecpm/livecpm/charts"
)

// written is what happens to objects of a control plane: Gardener's components and our own read them, create them,
// patch them when they are there already (controllerutils.GetAndCreateOrMergePatch), and delete them in the end.
const written = "create delete get list patch"

// source is a file of this module or of Gardener.
type source struct {
	gardener bool
	path     string
}

func gardener(path string) source { return source{gardener: true, path: path} }
func own(path string) source      { return source{path: path} }

// seedUses tells of every permission that the agent has in its seed which code needs it. In the garden, and of the
// controller manager, the audit log tells it: test/integration/permissions. A seed takes a landscape; its
// kube-apiservers can write an audit log, too (LIVECPM_AUDIT in docs/development/landscape.md).
var seedUses = []struct {
	resource, verbs string
	in              source
	text            string
	// onlyWithWorkers says that no shoot without workers needs it.
	onlyWithWorkers bool
}{
	{"/configmaps", written, gardener("pkg/component/kubernetes/apiserver/configmaps.go"), "corev1.ConfigMap", false},
	{"/events", "create patch", own("pkg/program/manager.go"), "LeaderElectionID:", false},
	{"/events", "list", gardener("pkg/utils/kubernetes/kubernetes.go"), "corev1.EventList{", false},
	{"/namespaces", written, gardener("pkg/gardenlet/operation/botanist/namespaces.go"), "corev1.Namespace{", false},
	{"/persistentvolumeclaims", "get patch delete", gardener("pkg/component/observability/logging/vali/vali.go"),
		"v.client.Patch(ctx, pvc, patch)", false},
	{"/persistentvolumeclaims", "list", gardener("pkg/gardenlet/operation/botanist/namespaces.go"),
		"corev1.PersistentVolumeClaimList{", false},
	{"/persistentvolumes", "get", gardener("pkg/gardenlet/operation/botanist/namespaces.go"),
		"corev1.PersistentVolume{", false},
	{"/pods", "delete", own("pkg/etcd/joint/objects.go"), "j.Client.Delete(ctx, pod, ", false},
	{"/pods", "get", own("pkg/etcd/joint/objects.go"), "corev1.Pod{", false},
	{"/pods", "list", own("pkg/tunnel/exposure/exposure.go"),
		"e.client.List(ctx, list, client.InNamespace(e.values.Namespace), client.MatchingLabels(podSelector()))",
		false},
	{"/pods", "watch", own("pkg/etcd/joint/podwatch.go"), "return j.Pods.Watch(ctx, opts)", false},
	{"/secrets", "update", gardener("pkg/utils/managedresources/builder/secrets.go"), "cl.Update(ctx, secret)", false},
	{"/secrets", written, gardener("pkg/utils/secrets/manager/generate.go"), "corev1.Secret{", false},
	{"/serviceaccounts", written, gardener("pkg/component/gardener/resourcemanager/resource_manager.go"),
		"corev1.ServiceAccount{", false},
	{"/services", written, own("pkg/tunnel/exposure/objects.go"), "corev1.Service", false},
	{"/version", "get", gardener("pkg/client/kubernetes/client.go"), "NewWithConfig", false},
	{"apps/deployments", written, gardener("pkg/component/kubernetes/apiserver/deployment.go"), "appsv1.Deployment",
		false},
	{"apps/deployments/scale", "patch", gardener("pkg/utils/kubernetes/scaling.go"), `c.SubResource("scale").Patch(`,
		false},
	{"apps/replicasets", "list", gardener("pkg/utils/kubernetes/kubernetes.go"), "appsv1.ReplicaSetList{", false},
	{"apps/statefulsets", written, own("pkg/etcd/joint/objects.go"), "appsv1.StatefulSet{", false},
	{"apps/statefulsets/scale", "patch", gardener("pkg/component/observability/logging/vali/vali.go"),
		"ScaleStatefulSetAndWaitUntilScaled(", false},
	{"autoscaling.gardener.cloud/persistentvolumeclaimautoscalers", written,
		gardener("pkg/component/observability/logging/vali/vali.go"), "PersistentVolumeClaimAutoscaler{", false},
	{"autoscaling.k8s.io/verticalpodautoscalers", written,
		gardener("pkg/component/kubernetes/apiserver/verticalpodautoscaler.go"), "VerticalPodAutoscaler{", false},
	{"autoscaling/horizontalpodautoscalers", written,
		gardener("pkg/component/kubernetes/apiserver/horizontalpodautoscaler.go"), "HorizontalPodAutoscaler{", false},
	{"coordination.k8s.io/leases", "create", own("pkg/etcd/joint/lease.go"), "coordinationv1.Lease{", false},
	{"coordination.k8s.io/leases", "get", own("pkg/agent/backups/revision.go"), "coordinationv1.Lease{", false},
	{"discovery.k8s.io/endpointslices", written, own("pkg/tunnel/exposure/slices.go"), "discoveryv1.EndpointSlice",
		false},
	{"druid.gardener.cloud/etcdcopybackupstasks", "create delete get",
		gardener("pkg/component/etcd/copybackupstask/copybackupstask.go"), "druidcorev1alpha1.EtcdCopyBackupsTask{",
		false},
	{"druid.gardener.cloud/etcds", written, gardener("pkg/component/etcd/etcd/etcd.go"), "druidcorev1alpha1.Etcd{",
		false},
	{"events.k8s.io/events", "create patch", own("pkg/agent/standby.go"), "s.Recorder.Eventf(", false},
	{"extensions.gardener.cloud/backupentries", "delete get list patch", own("pkg/agent/backups/entry.go"),
		"extensionsv1alpha1.BackupEntry{", false},
	{"extensions.gardener.cloud/clusters", written, gardener("pkg/extensions/cluster.go"),
		"extensionsv1alpha1.Cluster{", false},
	{"extensions.gardener.cloud/containerruntimes", "delete get list patch",
		gardener("pkg/component/extensions/containerruntime/containerruntime.go"),
		"extensions.MigrateExtensionObjects(", true},
	{"extensions.gardener.cloud/controlplanes", "delete get list patch",
		gardener("pkg/component/extensions/controlplane/controlplane.go"), "extensions.MigrateExtensionObjects(", true},
	{"extensions.gardener.cloud/dnsrecords", written, gardener("pkg/component/extensions/dnsrecord/dnsrecord.go"),
		"extensionsv1alpha1.DNSRecord{", false},
	{"extensions.gardener.cloud/dnsrecords/status", "patch", gardener("pkg/extensions/customresources.go"),
		"c.Status().Patch(ctx, extensionObj, patch)", false},
	{"extensions.gardener.cloud/extensions", written, gardener("pkg/component/extensions/extension/extension.go"),
		"extensionsv1alpha1.Extension{", false},
	{"extensions.gardener.cloud/extensions/status", "patch", gardener("pkg/extensions/customresources.go"),
		"c.Status().Patch(ctx, extensionObj, patch)", false},
	{"extensions.gardener.cloud/infrastructures", "delete get list patch",
		gardener("pkg/component/extensions/infrastructure/infrastructure.go"), "extensions.MigrateExtensionObject(",
		true},
	{"extensions.gardener.cloud/networks", "delete get list patch",
		gardener("pkg/component/extensions/network/network.go"), "extensions.MigrateExtensionObject(", true},
	{"extensions.gardener.cloud/operatingsystemconfigs", "delete get list patch",
		gardener("pkg/component/extensions/operatingsystemconfig/operatingsystemconfig.go"),
		"extensions.MigrateExtensionObjects(", true},
	{"extensions.gardener.cloud/selfhostedshootexposures", "list",
		gardener("pkg/utils/gardener/shootstate/shootstate.go"), "extensionsv1alpha1.SelfHostedShootExposureList{",
		false},
	{"extensions.gardener.cloud/workers", "delete get list patch",
		gardener("pkg/component/extensions/worker/worker.go"), "extensions.MigrateExtensionObject(", true},
	{"machine.sapcloud.io/machineclasses", "list patch delete",
		gardener("pkg/gardenlet/operation/botanist/migration.go"), "machinev1alpha1.MachineClassList{", true},
	{"machine.sapcloud.io/machinedeployments", "list", gardener("pkg/utils/gardener/shootstate/machines.go"),
		"machinev1alpha1.MachineDeploymentList{", false},
	{"machine.sapcloud.io/machinedeployments", "patch delete",
		gardener("pkg/gardenlet/operation/botanist/migration.go"), "machinev1alpha1.MachineDeploymentList{", true},
	{"machine.sapcloud.io/machines", "list", gardener("pkg/utils/gardener/shootstate/machines.go"),
		"machinev1alpha1.MachineList{", false},
	{"machine.sapcloud.io/machines", "patch delete", gardener("pkg/gardenlet/operation/botanist/migration.go"),
		"machinev1alpha1.MachineList{", true},
	{"machine.sapcloud.io/machinesets", "list", gardener("pkg/utils/gardener/shootstate/machines.go"),
		"machinev1alpha1.MachineSetList{", false},
	{"machine.sapcloud.io/machinesets", "patch delete", gardener("pkg/gardenlet/operation/botanist/migration.go"),
		"machinev1alpha1.MachineSetList{", true},
	{"monitoring.coreos.com/prometheuses", written,
		gardener("pkg/component/observability/monitoring/prometheus/prometheus.go"), "monitoringv1.Prometheus{", false},
	{"monitoring.coreos.com/prometheusrules", written, gardener("pkg/component/kubernetes/apiserver/prometheusrule.go"),
		"PrometheusRule", false},
	{"monitoring.coreos.com/scrapeconfigs", written, gardener("pkg/component/etcd/etcd/etcd.go"), "ScrapeConfig{",
		false},
	{"monitoring.coreos.com/servicemonitors", written, gardener("pkg/component/kubernetes/apiserver/servicemonitor.go"),
		"ServiceMonitor", false},
	{"networking.istio.io/destinationrules", written, gardener("pkg/component/kubernetes/apiserverexposure/sni.go"),
		"DestinationRule{", false},
	{"networking.istio.io/envoyfilters", written, gardener("pkg/component/kubernetes/apiserverexposure/sni.go"),
		"EnvoyFilter{", false},
	{"networking.istio.io/gateways", written, gardener("pkg/component/kubernetes/apiserverexposure/sni.go"), "Gateway{",
		false},
	{"networking.istio.io/virtualservices", written, gardener("pkg/component/kubernetes/apiserverexposure/sni.go"),
		"VirtualService{", false},
	{"networking.k8s.io/ingresses", "list", gardener("pkg/gardenlet/operation/botanist/advertisedaddresses.go"),
		"networkingv1.IngressList", false},
	{"networking.k8s.io/networkpolicies", written, own("pkg/tunnel/exposure/objects.go"), "networkingv1.NetworkPolicy{",
		false},
	{"policy/poddisruptionbudgets", written, gardener("pkg/component/kubernetes/apiserver/poddisruptionbudget.go"),
		"PodDisruptionBudget", false},
	{"rbac.authorization.k8s.io/clusterroles", "bind escalate",
		gardener("pkg/component/gardener/resourcemanager/resource_manager.go"), `Kind:     "ClusterRole"`, false},
	{"rbac.authorization.k8s.io/rolebindings", written, gardener("pkg/component/kubernetes/apiserver/roles.go"),
		"rbacv1.RoleBinding{", false},
	{"rbac.authorization.k8s.io/roles", "bind escalate", gardener("pkg/component/kubernetes/apiserver/roles.go"),
		"RoleRef", false},
	{"rbac.authorization.k8s.io/roles", written, gardener("pkg/component/kubernetes/apiserver/roles.go"),
		"rbacv1.Role{", false},
	{"resources.gardener.cloud/managedresources", "deletecollection",
		gardener("pkg/gardenlet/operation/botanist/managedresources.go"), "DeleteAllOf(", false},
	{"resources.gardener.cloud/managedresources", "update",
		gardener("pkg/utils/managedresources/builder/managedresources.go"), "m.client.Update(ctx, resource)", false},
	{"resources.gardener.cloud/managedresources", written, gardener("pkg/utils/managedresources/managedresources.go"),
		"resourcesv1alpha1.ManagedResource{", false},
}

var _ = Describe("The permissions of the agent in its seed", func() {
	granted := func() []string {
		GinkgoHelper()
		var out []string
		for _, rule := range only[*rbacv1.ClusterRole](render(charts.Agent, nil)).Rules {
			out = append(out, permissions(rule)...)
		}
		slices.Sort(out)
		return out
	}
	used := func() []string {
		var out []string
		for _, use := range seedUses {
			for verb := range strings.FieldsSeq(use.verbs) {
				out = append(out, use.resource+" "+verb)
			}
		}
		slices.Sort(out)
		return out
	}

	It("should each be there for a use that is known, and no other and none twice", func() {
		Expect(granted()).To(Equal(used()))
	})

	It("should be used where the table says", func() {
		gardenerModule, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gardener/gardener").
			Output()
		Expect(err).NotTo(HaveOccurred())
		folders := map[bool]string{true: strings.TrimSpace(string(gardenerModule)), false: ".."}
		for _, use := range seedUses {
			content, err := os.ReadFile(filepath.Join(folders[use.in.gardener], use.in.path))
			Expect(err).NotTo(HaveOccurred(), use.resource)
			// However its lines are broken.
			compact := func(text string) string { return strings.Join(strings.Fields(text), "") }
			Expect(compact(string(content))).To(ContainSubstring(compact(use.text)), "%s %s", use.resource, use.verbs)
		}
	})

	It("should include a watch of pods only, and an update and a deletion of many at once only of what Gardener's "+
		"library does so",
		func() {
			for _, permission := range granted() {
				resource, verb, _ := strings.Cut(permission, " ")
				switch verb {
				case "watch":
					Expect(resource).To(Equal("/pods"))
				case "update":
					Expect(resource).To(BeElementOf("/secrets", "resources.gardener.cloud/managedresources"))
				case "deletecollection":
					Expect(resource).To(Equal("resources.gardener.cloud/managedresources"))
				}
			}
		})
})

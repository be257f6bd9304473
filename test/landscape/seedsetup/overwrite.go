// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener/imagevector"
	imagevectorutils "github.com/gardener/gardener/pkg/utils/imagevector"
)

// PlaceholderImage is the image of the programs whose work nothing on the landscape needs.
const PlaceholderImage = "livecpm.local/placeholder:landscape"

// A gardenlet that sets up its seed deploys everything that a seed has. Each image of Gardener's vector is in one of
// the following sets, so that one that a new version brings is noticed here and not by a pod that does not start.
var (
	// realImages are in the seeds under the references of the vector, with their programs or stand-ins for these. See
	// images, and workerImages for what is there only for a shoot with workers.
	realImages = sets.New(
		imagevector.ContainerImageNameEnvoyProxy,
		imagevector.ContainerImageNameEtcdDruid,
		imagevector.ContainerImageNameGardenerResourceManager,
		imagevector.ContainerImageNameIstioIstiod,
		imagevector.ContainerImageNameIstioProxy,
		imagevector.ContainerImageNameKubeApiserver,
		imagevector.ContainerImageNameKubeControllerManager,
		imagevector.ContainerImageNameKubeScheduler,
		imagevector.ContainerImageNameMachineControllerManager,
		imagevector.ContainerImageNameVpnServer,
	)
	// placeholderImages run in the namespaces of a seed's own components and of shoots without workers, or may run
	// there if an operator switches them on.
	placeholderImages = sets.New(
		imagevector.ContainerImageNameAlertmanager,
		imagevector.ContainerImageNameBlackboxExporter,
		imagevector.ContainerImageNameConfigmapReloader,
		imagevector.ContainerImageNameDependencyWatchdog,
		imagevector.ContainerImageNameEventLogger,
		imagevector.ContainerImageNameFluentBit,
		imagevector.ContainerImageNameFluentBitPlugin,
		imagevector.ContainerImageNameFluentBitPluginInstaller,
		imagevector.ContainerImageNameFluentOperator,
		imagevector.ContainerImageNameIngressDefaultBackend,
		imagevector.ContainerImageNameIstioBasicAuthServer,
		imagevector.ContainerImageNameKubeRbacProxy,
		imagevector.ContainerImageNameKubeStateMetrics,
		imagevector.ContainerImageNameNginxIngressController,
		imagevector.ContainerImageNameOpentelemetryCollector,
		imagevector.ContainerImageNameOpentelemetryOperator,
		imagevector.ContainerImageNamePauseContainer,
		imagevector.ContainerImageNamePerses,
		imagevector.ContainerImageNamePersesOperator,
		imagevector.ContainerImageNamePlutono,
		imagevector.ContainerImageNamePlutonoDataRefresher,
		imagevector.ContainerImageNamePrometheus,
		imagevector.ContainerImageNamePrometheusOperator,
		imagevector.ContainerImageNamePvcAutoscaler,
		imagevector.ContainerImageNameTelegraf,
		imagevector.ContainerImageNameTune2fs,
		imagevector.ContainerImageNameVali,
		imagevector.ContainerImageNameValiCurator,
		imagevector.ContainerImageNameVictoriaLogs,
		imagevector.ContainerImageNameVictoriaOperator,
		imagevector.ContainerImageNameVpaAdmissionController,
		imagevector.ContainerImageNameVpaRecommender,
		imagevector.ContainerImageNameVpaUpdater,
	)
	// otherImages keep their references. They are for gardens, for nodes, and for shoots with workers, to which a
	// program that does nothing would be worse than none: a pod that cannot start says what it lacks.
	otherImages = sets.New(
		imagevector.ContainerImageNameAlpineConntrack,
		imagevector.ContainerImageNameAlpineIptables,
		imagevector.ContainerImageNameApiserverProxySidecar,
		imagevector.ContainerImageNameClusterAutoscaler,
		imagevector.ContainerImageNameClusterProportionalAutoscaler,
		imagevector.ContainerImageNameCoredns,
		imagevector.ContainerImageNameCorednsConfigAdapter,
		imagevector.ContainerImageNameCortex,
		imagevector.ContainerImageNameEtcd,
		imagevector.ContainerImageNameEtcdBackupRestore,
		imagevector.ContainerImageNameGardenadm,
		imagevector.ContainerImageNameGardenerAdmissionController,
		imagevector.ContainerImageNameGardenerApiserver,
		imagevector.ContainerImageNameGardenerControllerManager,
		imagevector.ContainerImageNameGardenerDashboard,
		imagevector.ContainerImageNameGardenerDiscoveryServer,
		imagevector.ContainerImageNameGardenerMetricsExporter,
		imagevector.ContainerImageNameGardenerNodeAgent,
		imagevector.ContainerImageNameGardenerScheduler,
		imagevector.ContainerImageNameGardenlet,
		imagevector.ContainerImageNameHyperkube,
		imagevector.ContainerImageNameKubeProxy,
		imagevector.ContainerImageNameKubernetesDashboard,
		imagevector.ContainerImageNameKubernetesDashboardMetricsScraper,
		imagevector.ContainerImageNameMetricsServer,
		imagevector.ContainerImageNameNodeExporter,
		imagevector.ContainerImageNameNodeLocalDns,
		imagevector.ContainerImageNameNodeProblemDetector,
		imagevector.ContainerImageNameTerminalControllerManager,
		imagevector.ContainerImageNameValitail,
		imagevector.ContainerImageNameVpnClient,
	)
)

// imageVectorOverwrite returns the overwrite with which a gardenlet deploys what the seeds have in place of the
// vector's images. An image that is in none of the sets is an error.
func imageVectorOverwrite(vector imagevectorutils.ImageVector) ([]byte, error) {
	overwrite := imagevectorutils.ImageVector{}
	for _, source := range vector {
		var ref string
		switch {
		case placeholderImages.Has(source.Name):
			ref = PlaceholderImage
		case realImages.Has(source.Name), otherImages.Has(source.Name):
			continue
		default:
			return nil, fmt.Errorf("nobody has said what becomes of image %q of Gardener's image vector: add it to "+
				"one of the sets in test/landscape/seedsetup/overwrite.go", source.Name)
		}
		// Name, versions and architectures together say which entry is overwritten.
		overwrite = append(overwrite, &imagevectorutils.ImageSource{
			Name:           source.Name,
			RuntimeVersion: source.RuntimeVersion,
			TargetVersion:  source.TargetVersion,
			Architectures:  slices.Clone(source.Architectures),
			Ref:            &ref,
		})
	}
	content, err := yaml.Marshal(map[string]any{"images": overwrite})
	if err != nil {
		return nil, fmt.Errorf("failed to encode image vector overwrite: %w", err)
	}
	return content, nil
}

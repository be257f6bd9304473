// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package overlap

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/component/networking/apiserverproxy"
	vpnseedserver "github.com/gardener/gardener/pkg/component/networking/vpn/seedserver"
	vpnshoot "github.com/gardener/gardener/pkg/component/networking/vpn/shoot"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// ManagedResourceAPIServerProxy is the name of the ManagedResource of Gardener's apiserver-proxy, which Gardener
	// does not export.
	ManagedResourceAPIServerProxy = "shoot-core-apiserver-proxy"
	// managedResourceVPN is that of the VPN client.
	managedResourceVPN = "shoot-core-vpn-shoot"
	// vpnClient is the name of its Deployment in the shoot (deploymentName in gardener's
	// pkg/component/networking/vpn/shoot).
	vpnClient = "vpn-shoot"

	// envEndpoint is the environment variable of the VPN client with the name that it connects to.
	envEndpoint = "ENDPOINT"
	// envHAClients is the environment variable with the number of regular clients.
	envHAClients = "HA_VPN_CLIENTS"

	// adminPort is where the regular apiserver-proxy serves its metrics on each node, and twinAdminPort where its twin
	// does.
	adminPort     = 16910
	twinAdminPort = 16912
	// proxyInterface is the network interface that the twin of the apiserver-proxy makes on each node. The kernel takes
	// 15 characters.
	proxyInterface = "livecpm-proxy"
)

// Components are Gardener's components of which there are twins, on a botanist's values. They write nothing into the
// seed but the secrets of the secrets manager.
type Components struct {
	botanist *botanist.Botanist
	recorder *recorder
	vpn      vpnshoot.Interface
	proxy    apiserverproxy.Interface
}

// NewComponents returns the components. It must not be called while tasks of the botanist run: Gardener's components
// take the botanist's client when they are made, and get another one here.
func NewComponents(b *botanist.Botanist) (*Components, error) {
	c := &Components{botanist: b, recorder: newRecorder()}
	err := record(b, c.recorder, func() error {
		var err error
		if c.vpn, err = b.DefaultVPNShoot(); err != nil {
			return fmt.Errorf("failed to make the component of the VPN client: %w", err)
		}
		if c.proxy, err = b.DefaultAPIServerProxy(); err != nil {
			return fmt.Errorf("failed to make the component of the apiserver-proxy: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// DeployVPNClient deploys the component of the VPN client with this seed's key. The botanist's own task would write a
// constraint of the Shoot in addition, which is the gardenlet's. VPN server and clients share the key. It exists since
// the server was deployed; the botanist's secrets manager only knows what was asked for in its own life.
func DeployVPNClient(ctx context.Context, b *botanist.Botanist, component vpnshoot.Interface) error {
	if _, err := b.SecretsManager.Generate(ctx, &secretsutils.VPNTLSAuthConfig{Name: vpnseedserver.SecretNameTLSAuth},
		secretsmanager.Rotate(secretsmanager.InPlace)); err != nil {
		return fmt.Errorf("failed to look up secret %s: %w", vpnseedserver.SecretNameTLSAuth, err)
	}
	component.SetPodNetworkCIDRs(b.Shoot.Networks.Pods)
	component.SetServiceNetworkCIDRs(b.Shoot.Networks.Services)
	component.SetNodeNetworkCIDRs(b.Shoot.Networks.Nodes)
	if err := component.Deploy(ctx); err != nil {
		return fmt.Errorf("failed to deploy the VPN client: %w", err)
	}
	return nil
}

// CheckVPNClient returns an error unless the regular VPN client, in a VPN that is not highly available, runs in the
// form that DeployVPNClient has given it last. It waits neither for the end of the former pod nor for the resource
// manager to notice it, which takes up to a minute more.
func CheckVPNClient(ctx context.Context, seed, shoot client.Client, namespace string) error {
	resource := &resourcesv1alpha1.ManagedResource{}
	key := client.ObjectKey{Namespace: namespace, Name: managedResourceVPN}
	if err := seed.Get(ctx, key, resource); err != nil {
		return fmt.Errorf("failed to get ManagedResource %s: %w", key, err)
	}
	if err := health.CheckManagedResourceApplied(resource); err != nil {
		return fmt.Errorf("failed to change the VPN client: %w", err)
	}
	deployment := &appsv1.Deployment{}
	key = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: vpnClient}
	if err := shoot.Get(ctx, key, deployment); err != nil {
		return fmt.Errorf("failed to get Deployment %s of the shoot: %w", key, err)
	}
	if err := health.CheckDeployment(deployment); err != nil {
		return fmt.Errorf("failed to roll out Deployment %s of the shoot: %w", key, err)
	}
	// It may have more pods than it asks for while it rolls. All are available if none is unavailable.
	status := deployment.Status
	if want := ptr.Deref(deployment.Spec.Replicas, 1); status.UpdatedReplicas < want || status.UnavailableReplicas > 0 {
		return fmt.Errorf("failed to roll out Deployment %s of the shoot: %d of %d pods are new, %d are not available",
			key, status.UpdatedReplicas, want, status.UnavailableReplicas)
	}
	return nil
}

// VPN returns the objects of the temporary VPN client. It connects to the gateway under the given name and reaches the
// VPN server of this seed there, because it has this seed's key: a client of the source could not get in, nor could
// this one there.
//
// regularClients is how many clients there are without it in a highly available VPN. Each has an address in the VPN by
// its ordinal. The temporary ones take the ordinals behind, so that both can be connected at the same time; server and
// kube-apiserver must have been told of as many as the botanist's shoot says. A VPN that is not highly available takes
// one client only, and the one that comes last: there the twin has to go as soon as the regular client comes.
func (c *Components) VPN(ctx context.Context, endpoint string, regularClients int) ([]client.Object, error) {
	b := c.botanist
	if err := DeployVPNClient(ctx, b, c.vpn); err != nil {
		return nil, err
	}
	objects, err := c.recorder.managed(ctx, b.Shoot.ControlPlaneNamespace, managedResourceVPN)
	if err != nil {
		return nil, err
	}
	return vpnTwin(objects, endpoint, regularClients)
}

func vpnTwin(objects []client.Object, endpoint string, regularClients int) ([]client.Object, error) {
	objects, err := rename(VPN, objects)
	if err != nil {
		return nil, err
	}
	workloads := 0
	for _, object := range objects {
		pods := podsOf(object)
		if pods == nil {
			continue
		}
		workloads++
		onSystemPools(&pods.template.Spec)
		connected := 0
		for i := range pods.template.Spec.Containers {
			container := &pods.template.Spec.Containers[i]
			connected += setEnv(container, envEndpoint, endpoint)
			// Its watchdog counts its own connections by the number of clients.
			setEnv(container, envHAClients, strconv.Itoa(regularClients))
		}
		if connected == 0 {
			return nil, fmt.Errorf("failed to point the temporary VPN client at %s: no container of %s has the "+
				"variable %s", endpoint, object.GetName(), envEndpoint)
		}
		if statefulSet, ok := object.(*appsv1.StatefulSet); ok {
			if err := behind(statefulSet, regularClients); err != nil {
				return nil, err
			}
		}
	}
	if workloads != 1 {
		return nil, fmt.Errorf(
			"failed to make the temporary VPN client: Gardener's component has %d workloads instead of one", workloads)
	}
	return withoutUnused(objects), nil
}

// behind makes the ordinals of the StatefulSet begin where those of the regular clients end.
func behind(statefulSet *appsv1.StatefulSet, regularClients int) error {
	replicas := int(ptr.Deref(statefulSet.Spec.Replicas, 1))
	if replicas <= regularClients {
		return fmt.Errorf("failed to make the temporary VPN clients: the shoot has %d clients in all, %d of them "+
			"regular ones", replicas, regularClients)
	}
	statefulSet.Spec.Ordinals = &appsv1.StatefulSetOrdinals{
		Start: int32(regularClients),
	} // #nosec G115 -- it is 2 in Gardener.
	statefulSet.Spec.Replicas = ptr.To(
		int32(replicas - regularClients)) // #nosec G115 -- as above.
	// Gardener's webhook does the like for the regular ones.
	statefulSet.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: statefulSet.Spec.Selector,
	}}

	// The clients' certificates are in one volume each, with the ordinal at its end. Those of the regular ones are not
	// needed.
	regular := func(name string) bool {
		ordinal, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
		return err == nil && ordinal < regularClients
	}
	spec := &statefulSet.Spec.Template.Spec
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(volume corev1.Volume) bool { return regular(volume.Name) })
	for i := range spec.Containers {
		spec.Containers[i].VolumeMounts = slices.DeleteFunc(
			spec.Containers[i].VolumeMounts, func(mount corev1.VolumeMount) bool { return regular(mount.Name) })
	}
	return nil
}

// withoutUnused leaves out the secrets that no volume refers to.
func withoutUnused(objects []client.Object) []client.Object {
	used := map[string]bool{}
	for _, object := range objects {
		pods := podsOf(object)
		if pods == nil {
			continue
		}
		for _, volume := range pods.template.Spec.Volumes {
			if volume.Secret != nil {
				used[volume.Secret.SecretName] = true
			}
			if volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				if source.Secret != nil {
					used[source.Secret.Name] = true
				}
			}
		}
	}
	return slices.DeleteFunc(objects, func(object client.Object) bool {
		_, secret := object.(*corev1.Secret)
		return secret && !used[object.GetName()]
	})
}

func setEnv(container *corev1.Container, name, value string) int {
	set := 0
	for i := range container.Env {
		if container.Env[i].Name == name {
			container.Env[i].Value = value
			set++
		}
	}
	return set
}

// APIServerProxy returns the objects of an apiserver-proxy that serves the given address on every node, beside the
// regular one. It leads where the regular one leads: to the kube-apiserver that the shoot's name stands for.
func (c *Components) APIServerProxy(ctx context.Context, address string) ([]client.Object, error) {
	c.proxy.SetAdvertiseIPAddress(address)
	if err := c.proxy.Deploy(ctx); err != nil {
		return nil, fmt.Errorf("failed to write the objects of the apiserver-proxy: %w", err)
	}
	objects, err := c.recorder.managed(ctx, c.botanist.Shoot.ControlPlaneNamespace, ManagedResourceAPIServerProxy)
	if err != nil {
		return nil, err
	}
	return proxyTwin(objects)
}

func proxyTwin(objects []client.Object) ([]client.Object, error) {
	objects, err := rename(APIServerProxy, objects)
	if err != nil {
		return nil, err
	}

	const interfaceFlag = "--interface="
	var (
		ports      = strings.NewReplacer(strconv.Itoa(adminPort), strconv.Itoa(twinAdminPort))
		configured = false
		interfaces = 0
	)
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.ConfigMap:
			for key, value := range o.Data {
				o.Data[key] = ports.Replace(value)
				configured = configured || o.Data[key] != value
			}
		case *appsv1.DaemonSet:
			spec := &o.Spec.Template.Spec
			for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
				for i := range containers {
					for j, arg := range containers[i].Args {
						if strings.HasPrefix(arg, interfaceFlag) {
							containers[i].Args[j] = interfaceFlag + proxyInterface
							interfaces++
						}
					}
					movePorts(&containers[i])
				}
			}
		}
	}
	if !configured || interfaces == 0 {
		return nil, fmt.Errorf("failed to make the twin of the apiserver-proxy: Gardener's component has another "+
			"port than %d or another flag than %s", adminPort, interfaceFlag)
	}
	return objects, nil
}

// movePorts takes the container off the regular one's port: both are in the network of the node.
func movePorts(container *corev1.Container) {
	for i := range container.Ports {
		if container.Ports[i].ContainerPort == adminPort {
			container.Ports[i].ContainerPort = twinAdminPort
		}
		if container.Ports[i].HostPort == adminPort {
			container.Ports[i].HostPort = twinAdminPort
		}
	}
	for _, probe := range []*corev1.Probe{container.ReadinessProbe, container.LivenessProbe, container.StartupProbe} {
		if probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Port == intstr.FromInt32(adminPort) {
			probe.HTTPGet.Port = intstr.FromInt32(twinAdminPort)
		}
	}
}

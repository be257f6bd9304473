// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/cli/view"
)

// DumpFile is a file of a dump.
type DumpFile struct {
	// Name is its path in the archive, Content what is in it.
	Name    string
	Content []byte
}

// Dump collects what a report of a fault needs. Secrets and ConfigMaps are not read at all, and what may be secret in
// other objects and in logs is taken out.
type Dump struct {
	files   []DumpFile
	missing []error
}

// Files returns what was collected, by name, and in the file MISSING what could not be. The error tells the same.
func (d *Dump) Files() ([]DumpFile, error) {
	missing := errors.Join(d.missing...)
	files := slices.Clone(d.files)
	if missing != nil {
		files = append(files, DumpFile{Name: "MISSING", Content: []byte(RedactText(missing.Error()) + "\n")})
	}
	slices.SortFunc(files, func(a, b DumpFile) int { return cmp.Compare(a.Name, b.Name) })
	return files, missing
}

// Miss records what could not be collected; nil is nothing.
func (d *Dump) Miss(err error) {
	if err != nil {
		d.missing = append(d.missing, err)
	}
}

// Text adds a text.
func (d *Dump) Text(name, text string) {
	d.files = append(d.files, DumpFile{Name: name, Content: []byte(RedactText(text))})
}

// Data adds something that is shown to programs as well.
func (d *Dump) Data(name string, value any) {
	content, err := yaml.Marshal(value)
	if err != nil {
		d.Miss(fmt.Errorf("failed to write %s: %w", name, err))
		return
	}
	d.files = append(d.files, DumpFile{Name: name, Content: []byte(RedactText(string(content)))})
}

// Objects adds objects to one file.
func (d *Dump) Objects(name string, scheme *runtime.Scheme, objects ...client.Object) {
	var content []byte
	for _, object := range objects {
		one, err := objectYAML(scheme, object)
		if err != nil {
			d.Miss(fmt.Errorf("failed to write %s into %s: %w", client.ObjectKeyFromObject(object), name, err))
			continue
		}
		content = append(append(content, "---\n"...), one...)
	}
	if len(content) > 0 {
		d.files = append(d.files, DumpFile{Name: name, Content: content})
	}
}

// objectYAML returns the object with its kind, without what may be secret.
func objectYAML(scheme *runtime.Scheme, object client.Object) ([]byte, error) {
	kind, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var decoded map[string]any
	if err := json.Unmarshal(content, &decoded); err != nil {
		return nil, err
	}
	decoded["apiVersion"], decoded["kind"] = kind.GroupVersion().String(), kind.Kind
	return yaml.Marshal(RedactObject(decoded))
}

// Installation adds what was found out about the installation.
func (d *Dump) Installation(in InstallationInput) {
	d.Data("version.yaml", in.Versions)
	d.Data("check.yaml", Installation(in))
	var objects []client.Object
	if in.Policy != nil {
		objects = append(objects, in.Policy)
	}
	if in.Binding != nil {
		objects = append(objects, in.Binding)
	}
	if in.Lease != nil {
		objects = append(objects, in.Lease)
	}
	d.Objects("garden/gate.yaml", kubernetes.GardenScheme, objects...)
	for i := range in.Seeds {
		d.Objects("garden/seeds/"+in.Seeds[i].Name+".yaml", kubernetes.GardenScheme, &in.Seeds[i])
	}
}

// Migration adds what was reported about the shoot and what is in its seeds.
func (d *Dump) Migration(ctx context.Context, t Timeline, seeds ...string) {
	d.Objects("garden/shoot.yaml", kubernetes.GardenScheme, t.Shoot)
	events, err := t.Events(ctx, seeds...)
	d.Miss(err)
	d.Text("events.txt", view.Events(events, view.Options{Wide: true}))
	lines, err := t.Logs(ctx, seeds...)
	d.Miss(err)
	d.Text("logs.txt", view.Logs(lines, view.Options{Wide: true}))
	for _, name := range seeds {
		if seed, ok := t.Seeds[name]; ok {
			d.seed(ctx, name, v1beta1helper.ControlPlaneNamespaceForShoot(t.Shoot), seed.Reader)
		}
	}
}

// seed adds what a migration works with in a seed.
func (d *Dump) seed(ctx context.Context, name, namespace string, reader client.Reader) {
	own := &corev1.Namespace{}
	switch err := reader.Get(ctx, client.ObjectKey{Name: namespace}, own); {
	case err == nil:
		d.Objects("seeds/"+name+"/namespace.yaml", kubernetes.SeedScheme, own)
	case client.IgnoreNotFound(err) != nil:
		d.Miss(fmt.Errorf("seed %s: failed to get namespace %s: %w", name, namespace, err))
	}
	for _, kind := range []struct {
		file      string
		list      client.ObjectList
		namespace string
		labels    client.MatchingLabels
	}{
		{"agent", &appsv1.DeploymentList{}, v1beta1constants.GardenNamespace,
			client.MatchingLabels{v1beta1constants.LabelApp: "livecpm"}},
		{"agent-pods", &corev1.PodList{}, v1beta1constants.GardenNamespace,
			client.MatchingLabels{v1beta1constants.LabelApp: "livecpm"}},
		{"etcds", &druidcorev1alpha1.EtcdList{}, namespace, nil},
		{"statefulsets", &appsv1.StatefulSetList{}, namespace, nil},
		{"deployments", &appsv1.DeploymentList{}, namespace, nil},
		{"pods", &corev1.PodList{}, namespace, nil},
		{"services", &corev1.ServiceList{}, namespace, nil},
		{"endpointslices", &discoveryv1.EndpointSliceList{}, namespace, nil},
		{"poddisruptionbudgets", &policyv1.PodDisruptionBudgetList{}, namespace, nil},
		{"networkpolicies", &networkingv1.NetworkPolicyList{}, namespace, nil},
		{"dnsrecords", &extensionsv1alpha1.DNSRecordList{}, namespace, nil},
	} {
		options := []client.ListOption{client.InNamespace(kind.namespace)}
		if kind.labels != nil {
			options = append(options, kind.labels)
		}
		if err := reader.List(ctx, kind.list, options...); err != nil {
			d.Miss(fmt.Errorf("seed %s: failed to list %s in namespace %s: %w", name,
				strings.TrimPrefix(kind.file, "agent-"), kind.namespace, err))
			continue
		}
		var objects []client.Object
		d.Miss(eachOf(kind.list, func(object client.Object) { objects = append(objects, object) }))
		d.Objects("seeds/"+name+"/"+kind.file+".yaml", kubernetes.SeedScheme, objects...)
	}
}

// eachOf calls the function with every object of the list.
func eachOf(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object", item)
		}
		do(object)
		return nil
	})
}

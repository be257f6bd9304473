// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// remedySpecification tells how a difference between the specification and what runs is resolved. While the seed
	// names differ, gardener-apiserver refuses changes of the specification, and the gardenlet reconciles nothing. The
	// write that sets the seed name back makes it reconcile, also outside of the maintenance time window.
	remedySpecification = "abort the migration and let the shoot stay (kubectl livecpm abort, then abort --stay): " +
		"its gardenlet then reconciles it; begin again when the last operation has succeeded"
	// maxFields is how many fields a message names.
	maxFields = 5

	fieldKubeAPIServer = "spec.kubernetes.kubeAPIServer"
)

// specificationChecks are the checks of fields that both kube-apiservers must share, because they write to one etcd and
// serve the same clients. A difference belongs to the first of them that has its field; what is left belongs to
// SpecReconciled.
var specificationChecks = []struct {
	name   Name
	fields []string
	// why tells what would happen.
	why string
}{
	{EncryptionConfig, []string{fieldKubeAPIServer + ".encryptionConfig"},
		"the kube-apiservers of the two seeds could not read what the other one has written"},
	{KubernetesVersion, []string{"spec.kubernetes.version"},
		"kube-apiservers of two versions would write to one etcd"},
	{FeatureGates, []string{fieldKubeAPIServer + ".featureGates", fieldKubeAPIServer + ".runtimeConfig"},
		"the kube-apiservers of the two seeds would know different fields and APIs"},
	{AdmissionPlugins, []string{fieldKubeAPIServer + ".admissionPlugins"},
		"the kube-apiservers of the two seeds would admit different things"},
	{ServiceAccountIssuer, []string{fieldKubeAPIServer + ".serviceAccountConfig",
		fieldKubeAPIServer + ".apiAudiences", annotationIssuer},
		"the kube-apiserver of one seed would refuse tokens of the other one"},
	{KubeAPIServerConfig, []string{fieldKubeAPIServer},
		"clients would meet kube-apiservers of different configurations"},
}

// annotationIssuer is how messages name the annotation that gives the shoot an issuer managed by Gardener. It is no
// part of the specification, but the gardenlet derives the issuer from it.
const annotationIssuer = "metadata.annotations." + v1beta1constants.AnnotationAuthenticationIssuer

// checkSpecification compares what the Shoot asks for with what its gardenlet has last rolled out in the source. The
// destination's control plane is made from the Shoot, so that a pending change would first be rolled out by the
// migration, in the destination alone: beside the source's kube-apiserver, on the same etcd.
//
// Generations do not tell. With spec.maintenance.confineSpecUpdateRollout a change of the specification does not count
// as one until the maintenance time window. What the source's gardenlet writes into its Cluster resource at the
// beginning of an operation does.
//
// It is made by the source before it begins, and then not again: as long as the seed names differ, gardener-apiserver
// refuses changes of the specification.
func checkSpecification(f Facts) []Finding {
	if f.ownRole() != steps.Source {
		return nil
	}
	if !f.RunningRead {
		return []Finding{checkGenerations(f)}
	}
	if problem := f.unknownRunning(); problem != "" {
		return []Finding{unknown(SpecReconciled, remedySpecification, "%s", problem)}
	}
	differing, err := differences(f.Running, f.Shoot)
	if err != nil {
		return []Finding{unknown(SpecReconciled, "read the agent's log, and report it",
			"the specification could not be compared with what runs: %v", err)}
	}
	var findings []Finding
	for _, check := range specificationChecks {
		var own []string
		for _, field := range check.fields {
			own = append(own, take(differing, field)...)
		}
		switch {
		case len(own) > 0:
			findings = append(findings, fail(check.name, remedySpecification, "not rolled out yet: %s; %s",
				f.named(own), check.why))
		case check.name == EncryptionConfig:
			findings = append(findings, checkEncryption(f))
		default:
			findings = append(findings, pass(check.name, "the kube-apiserver runs as specified"))
		}
	}
	if left := slices.Sorted(maps.Keys(differing)); len(left) > 0 {
		return append(findings, fail(SpecReconciled, remedySpecification, "not rolled out yet: %s", f.named(left)))
	}
	return append(findings, pass(SpecReconciled, "the specification is what the source runs"))
}

// checkGenerations asks for a specification that has been reconciled as far as generations tell, for those who do not
// see the seed. The new seed name counts as one.
func checkGenerations(f Facts) Finding {
	if pending := f.Shoot.Generation - f.Shoot.Status.ObservedGeneration; pending > 1 {
		return fail(SpecReconciled, remedySpecification,
			"the specification has changed %d times since its last reconciliation, the new seed name included", pending)
	}
	return pass(SpecReconciled, "the specification is reconciled as far as generations tell")
}

// unknownRunning tells why the Cluster does not say what runs; it is empty if it does.
func (f Facts) unknownRunning() string {
	switch {
	case f.RunningError != nil:
		return fmt.Sprintf("the Cluster resource in seed %s, which tells what runs, could not be read: %v",
			f.Source.Name, f.RunningError)
	case f.Running == nil:
		return fmt.Sprintf("the Cluster resource in seed %s has no Shoot", f.Source.Name)
	case f.Running.UID != f.Shoot.UID:
		return fmt.Sprintf("the Cluster resource in seed %s is of another shoot with the same name", f.Source.Name)
	case gardenerutils.ShouldIgnoreShoot(f.respectsIgnore(), f.Shoot):
		// Its gardenlet writes the specification into the Cluster without rolling it out.
		return fmt.Sprintf("the gardenlet of seed %s ignores the shoot (annotation %s), so nobody knows what of its "+
			"specification is rolled out", f.Source.Name, v1beta1constants.ShootIgnore)
	case f.Running.Generation > f.Shoot.Status.ObservedGeneration:
		// It also writes what it finds at the end of an operation, which may be newer than what it has rolled out.
		return fmt.Sprintf("the Cluster resource in seed %s has generation %d of the Shoot, but generation %d was "+
			"rolled out last", f.Source.Name, f.Running.Generation, f.Shoot.Status.ObservedGeneration)
	}
	return ""
}

// respectsIgnore reports whether the source's gardenlet leaves shoots alone that have the annotation. What is not known
// counts as yes.
func (f Facts) respectsIgnore() bool {
	if f.Gardenlet == nil || f.Gardenlet.Controllers == nil || f.Gardenlet.Controllers.Shoot == nil {
		return true
	}
	return ptr.Deref(f.Gardenlet.Controllers.Shoot.RespectSyncPeriodOverwrite, false)
}

// checkEncryption compares with the status, too: the gardenlet writes there how the data is encrypted when all of it
// has been rewritten.
func checkEncryption(f Facts) Finding {
	var (
		config    = f.Shoot.Spec.Kubernetes.KubeAPIServer
		wanted    = sets.New[string]()
		encrypted = resourcesOf(v1beta1helper.GetShootEncryptedResourcesInStatus(f.Shoot.Status))
	)
	if config != nil && config.EncryptionConfig != nil {
		wanted = resourcesOf(config.EncryptionConfig.Resources)
	}
	if !wanted.Equal(encrypted) {
		return fail(EncryptionConfig, remedySpecification,
			"%s.encryptionConfig.resources asks for [%s], but what is encrypted by the Shoot's status is [%s]",
			fieldKubeAPIServer, strings.Join(sets.List(wanted), ", "), strings.Join(sets.List(encrypted), ", "))
	}
	asked, used := v1beta1helper.GetEncryptionProviderType(config),
		v1beta1helper.GetEncryptionProviderTypeInStatus(f.Shoot.Status)
	if used != "" && asked != used {
		return fail(EncryptionConfig, remedySpecification,
			"%s.encryptionConfig.provider.type asks for %s, but by the Shoot's status it is %s", fieldKubeAPIServer,
			asked, used)
	}
	return pass(EncryptionConfig, "all data is encrypted as specified")
}

// resourcesOf returns the resources in one spelling: those of the core group may end with a dot.
func resourcesOf(resources []string) sets.Set[string] {
	out := sets.New[string]()
	for _, resource := range resources {
		out.Insert(schema.ParseGroupResource(resource).String())
	}
	return out
}

// named names fields for a message. Values are left out, because nobody knows what providers have in them; versions are
// well known.
func (f Facts) named(fields []string) string {
	var out []string
	for _, field := range fields {
		if field == "spec.kubernetes.version" {
			field = fmt.Sprintf("%s is %s, and %s runs", field, f.Shoot.Spec.Kubernetes.Version,
				f.Running.Spec.Kubernetes.Version)
		}
		out = append(out, field)
	}
	if more := len(out) - maxFields; more > 0 {
		out = append(out[:maxFields], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

// take removes the field and what is below it from the fields, and returns what it has removed in order.
func take(fields map[string]struct{}, field string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if rest, below := strings.CutPrefix(name, field); below && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			out = append(out, name)
			delete(fields, name)
		}
	}
	return out
}

// differences returns the fields in which the Shoots ask for different control planes, but for the seed's name. They
// are compared as JSON: the Cluster keeps the Shoot as JSON, and with it configurations of providers, which may have
// been formatted anew.
func differences(running, wanted *gardencorev1beta1.Shoot) (map[string]struct{}, error) {
	was, err := fieldsOf(running)
	if err != nil {
		return nil, err
	}
	is, err := fieldsOf(wanted)
	if err != nil {
		return nil, err
	}
	out := map[string]struct{}{}
	compare("spec", was, is, out)
	if v1beta1helper.HasManagedIssuer(running) != v1beta1helper.HasManagedIssuer(wanted) {
		out[annotationIssuer] = struct{}{}
	}
	return out, nil
}

func fieldsOf(shoot *gardencorev1beta1.Shoot) (map[string]any, error) {
	encoded, err := json.Marshal(shoot.Spec)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the specification: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	out := map[string]any{}
	if err := decoder.Decode(&out); err != nil {
		return nil, fmt.Errorf("failed to decode the specification: %w", err)
	}
	delete(out, "seedName")
	return out, nil
}

// compare adds the fields below the path in which the values differ. What is missing, null and an empty list are the
// same: the patches by which the Cluster is written, and protobuf, do not keep them apart.
func compare(path string, was, is any, differing map[string]struct{}) {
	if isNothing(was) && isNothing(is) {
		return
	}
	switch was := was.(type) {
	case map[string]any:
		if is, same := is.(map[string]any); same {
			for key := range sets.KeySet(was).Union(sets.KeySet(is)) {
				compare(path+"."+key, was[key], is[key], differing)
			}
			return
		}
	case []any:
		if is, same := is.([]any); same && len(was) == len(is) {
			for i := range was {
				compare(fmt.Sprintf("%s[%d]", path, i), was[i], is[i], differing)
			}
			return
		}
	case json.Number:
		if is, same := is.(json.Number); same && sameNumber(was, is) {
			return
		}
	default:
		if was == is {
			return
		}
	}
	differing[path] = struct{}{}
}

func isNothing(value any) bool {
	list, isList := value.([]any)
	return value == nil || isList && len(list) == 0
}

// sameNumber reports whether the numbers are equal although they may be written in different ways.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	_, errA := a.Int64()
	_, errB := b.Int64()
	if errA == nil && errB == nil {
		return false
	}
	floatA, errA := a.Float64()
	floatB, errB := b.Float64()
	return errA == nil && errB == nil && floatA == floatB
}

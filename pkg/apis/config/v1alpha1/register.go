// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the configuration.
const GroupName = "config.livecpm.gardener.cloud"

// SchemeGroupVersion is the group and version of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder registers the kinds of this package and their defaults.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes, addDefaulting)
	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &AgentConfiguration{}, &ControllerManagerConfiguration{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}

func addDefaulting(scheme *runtime.Scheme) error {
	scheme.AddTypeDefaultingFunc(&AgentConfiguration{}, func(obj any) {
		SetDefaults(obj.(*AgentConfiguration))
	})
	scheme.AddTypeDefaultingFunc(&ControllerManagerConfiguration{}, func(obj any) {
		SetControllerManagerDefaults(obj.(*ControllerManagerConfiguration))
	})
	return nil
}

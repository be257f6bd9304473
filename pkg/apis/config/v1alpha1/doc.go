// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=config.livecpm.gardener.cloud

// Package v1alpha1 is the first version of the configuration of livecpm's components.
package v1alpha1

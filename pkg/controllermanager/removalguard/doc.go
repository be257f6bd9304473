// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package removalguard writes down which seeds' agents are needed, for the admission policy that refuses to remove them. A
// policy cannot look at Shoots when somebody deletes a ControllerRegistration or a ControllerInstallation, but at one ConfigMap.
package removalguard

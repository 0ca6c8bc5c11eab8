// The pages, in the order of their links: a folder name, a title, and the module that shows it. A module has
// `show(place, path, signal)`: it fills the element, and stops when the signal says so.

export const PAGES = [
  { name: "overview", title: "Overview", load: () => import("./pages/overview.js") },
  { name: "data", title: "Data", load: () => import("./pages/data.js") },
  { name: "registrations", title: "Registrations", load: () => import("./pages/registrations.js") },
  { name: "estimators", title: "Estimators", load: () => import("./pages/estimators.js") },
  { name: "tasks", title: "Tasks", load: () => import("./pages/tasks.js") },
  { name: "jobs", title: "Jobs", load: () => import("./pages/jobs.js") },
  { name: "reservations", title: "Reservations", load: () => import("./pages/reservations.js") },
  { name: "users", title: "Users", load: () => import("./pages/users.js") },
];

// Features of images: a feature that is pressed stands out in every image.
(function () {
  const buttons = [...document.querySelectorAll("button[data-show-feature]")];
  const images = [...document.querySelectorAll("[data-image-features]")];
  const status = document.getElementById("feature-status");
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const wanted = button.getAttribute("aria-pressed") === "true" ? null : button.dataset.showFeature;
      for (const other of buttons) {
        other.setAttribute("aria-pressed", String(other.dataset.showFeature === wanted));
      }
      let count = 0;
      for (const image of images) {
        const has = image.dataset.imageFeatures.split(" ").includes(wanted);
        image.hidden = wanted !== null && !has;
        count += has ? 1 : 0;
        for (const stamp of image.querySelectorAll(".stamp")) {
          stamp.classList.toggle("dim", wanted !== null && stamp.dataset.feature !== wanted);
        }
      }
      if (status) {
        status.textContent = wanted === null ? "All images are shown."
          : "Feature " + wanted + " lies in " + count + " of the " + images.length + " images shown.";
      }
    });
  }
})();
